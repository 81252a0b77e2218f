"""Token-exact rendering and parsing for both roles."""

from envace.chat.compact import CompactTemplate
from envace.chat.stream import Span, TokenRole, TokenStream

__all__ = ["CompactTemplate", "Span", "TokenRole", "TokenStream"]
