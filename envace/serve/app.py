"""The HTTP application: OpenAI's chat endpoint, its errors, models and health."""

import hmac
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from envace.serve.backend import ChatBackend, ContextTooLongError
from envace.serve.openai_format import WireRequest, reply_to_wire, request_from_wire
from envace.trajectory.jsonl import describe

if TYPE_CHECKING:
    from fastapi import FastAPI


class BadRequestError(Exception):
    """A request that is refused, as OpenAI's error object says it.

    Args:
        message: What is wrong, in one line.
        code: OpenAI's error code, or None.
        status: HTTP status.
    """

    def __init__(self, message: str, code: str | None = None, status: int = 400) -> None:
        self.message = message
        self.code = code
        self.status = status
        super().__init__(message)


def error_body(message: str, code: str | None, status: int) -> dict[str, Any]:
    """OpenAI's error shape; `type` follows from the HTTP status."""
    kind = {401: "authentication_error", 500: "server_error"}.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def answer(backend: ChatBackend, lock: threading.Lock, body: bytes) -> dict[str, Any]:
    """Answer one request body.

    Raises:
        BadRequestError: when the body cannot be answered, with the reason.
    """
    try:
        wire = WireRequest.model_validate_json(body)
        request = request_from_wire(wire, backend.models()[0])
    except ValidationError as error:
        raise BadRequestError(describe(error)) from error
    if wire.stream:
        raise BadRequestError("streaming is not supported: send stream=false", "unsupported_value")
    if wire.tool_choice not in (None, "auto", "none"):
        raise BadRequestError("tool_choice must be auto or none", "unsupported_value")
    if request.model not in backend.models():
        raise BadRequestError(f"no model {request.model!r}: see /v1/models", "model_not_found", 404)
    try:
        with lock:
            reply = backend.reply(request)
    except ContextTooLongError as error:
        raise BadRequestError(str(error), "context_length_exceeded") from error
    return reply_to_wire(reply, request.model, uuid.uuid4().hex[:24], int(time.time()))


def create_app(backend: ChatBackend, api_key: str = "") -> "FastAPI":
    """The application in front of `backend`.

    Args:
        backend: What answers; called from one thread at a time.
        api_key: When set, every request but `/health` needs it as a bearer token.
    """
    from fastapi import FastAPI, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import JSONResponse

    app = FastAPI(title="EnvACE", docs_url=None, redoc_url=None, openapi_url=None)
    lock = threading.Lock()

    def check_key(request: Request) -> None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if api_key and not hmac.compare_digest(given.encode(), api_key.encode()):
            raise BadRequestError("wrong or missing API key", "invalid_api_key", 401)

    async def refuse(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, BadRequestError)
        return JSONResponse(error_body(error.message, error.code, error.status), error.status)

    async def fail(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse(error_body(f"{type(error).__name__}: {error}", None, 500), 500)

    app.add_exception_handler(BadRequestError, refuse)
    app.add_exception_handler(Exception, fail)

    async def chat(request: Request) -> JSONResponse:
        check_key(request)
        return JSONResponse(await run_in_threadpool(answer, backend, lock, await request.body()))

    async def models(request: Request) -> JSONResponse:
        check_key(request)
        rows = [{"id": m, "object": "model", "created": 0, "owned_by": "envace"} for m in backend.models()]
        return JSONResponse({"object": "list", "data": rows})

    async def health() -> dict[str, str]:
        return {"status": "ok"}

    app.add_api_route("/v1/chat/completions", chat, methods=["POST"])
    app.add_api_route("/v1/models", models, methods=["GET"])
    app.add_api_route("/health", health, methods=["GET"])
    return app
