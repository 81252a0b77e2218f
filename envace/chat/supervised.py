"""Recorded conversations as supervised rows, in either layout of the environment role."""

from collections.abc import Sequence

from envace.chat.base import Template
from envace.chat.prompted import PromptedLayout, environment_streams
from envace.chat.stream import TokenRole, TokenStream
from envace.trajectory import Message, Tool


def supervised(
    template: Template,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    layout: PromptedLayout | None = None,
) -> list[TokenStream]:
    """Rows that carry loss: one for both roles in the `inline` layout (None); in the `prompted` layout
    one for the act role, if it has any, and one a response."""
    if layout is None:
        return [template.render(messages, tools)]
    given = [m.model_copy(update={"trainable": False}) if m.role == "tool" else m for m in messages]
    act = template.render(given, tools)
    rows = [act] if int(TokenRole.ACT) in act.roles else []
    return rows + environment_streams(template, layout, messages, tools)
