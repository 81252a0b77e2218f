"""Refusals and failures as OpenAI's error object says them."""

from typing import Any

KINDS = {401: "authentication_error", 429: "rate_limit_error"}
"""`type` of an error by its HTTP status; others follow from the status' class."""


class RequestError(Exception):
    """A request that is not answered.

    Args:
        message: What is wrong, in one line.
        code: OpenAI's error code, or None.
        status: HTTP status.
        retry_after: Seconds after which to come back, 0 where that would not help.
    """

    def __init__(
        self, message: str, code: str | None = None, status: int = 400, retry_after: int = 0
    ) -> None:
        self.message = " ".join(message.split())
        self.code = code
        self.status = status
        self.retry_after = retry_after
        super().__init__(self.message)

    def body(self) -> dict[str, Any]:
        """OpenAI's error shape."""
        kind = KINDS.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}

    def headers(self) -> dict[str, str]:
        """`Retry-After`, where coming back helps."""
        return {"retry-after": str(self.retry_after)} if self.retry_after else {}
