"""Marks of chat templates, which no text of a role may hold."""

import re

MARKUP = re.compile(r"</?tool_(?:call|response)s?>|<\|[a-z_]{2,20}\|>|\[/?(?:INST|TOOL_CALLS|TOOL_RESULTS)\]")
"""Marks around calls, responses and turns in the usual templates."""
