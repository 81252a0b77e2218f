"""Token-exact rendering and parsing for both roles."""

from envace.chat.base import SeamlessTemplate, Template
from envace.chat.compact import CompactTemplate
from envace.chat.families import load_template
from envace.chat.hermes import HermesTemplate
from envace.chat.prompted import PromptedLayout, make_layout
from envace.chat.stream import Span, TokenRole, TokenStream
from envace.chat.supervised import supervised

__all__ = [
    "CompactTemplate", "HermesTemplate", "PromptedLayout", "SeamlessTemplate", "Span", "Template",
    "TokenRole", "TokenStream", "load_template", "make_layout", "supervised",
]  # fmt: skip
