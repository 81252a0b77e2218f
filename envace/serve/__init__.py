"""An OpenAI-compatible server in front of anything that can answer a chat."""

from envace.serve.backend import ChatBackend, ChatReply, ChatRequest, ContextTooLongError

__all__ = ["ChatBackend", "ChatReply", "ChatRequest", "ContextTooLongError"]
