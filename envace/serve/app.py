"""The HTTP application: OpenAI's chat endpoint, its errors, models, health and metrics."""

import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from envace.serve.errors import RequestError
from envace.serve.limits import Gate, Limits
from envace.serve.service import Service

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Scope


def create_app(service: Service, api_key: str = "", limits: Limits | None = None) -> "FastAPI":
    """The application in front of `service`, which it closes at its end.

    Args:
        service: What answers.
        api_key: When set, every request but `/health` needs it as a bearer token.
        limits: What it takes on.
    """
    from fastapi import FastAPI, Request, Response
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    from envace.serve.endpoint import ChatEndpoint
    from envace.serve.metrics import CONTENT_TYPE, Metrics

    limits = limits or Limits()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    app = FastAPI(title="EnvACE", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    gate = Gate(limits.running, limits.waiting)
    metrics = Metrics(service, gate)

    def check(scope: "Scope") -> None:
        given = dict(scope["headers"]).get(b"authorization", b"").removeprefix(b"Bearer ")
        if api_key and not hmac.compare_digest(given, api_key.encode()):
            raise RequestError("wrong or missing API key", "invalid_api_key", 401)

    def respond(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        return Response(json.dumps(value), status, headers, "application/json")

    async def refuse(_: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            error = RequestError(str(error.detail), None, error.status_code)
        elif not isinstance(error, RequestError):
            error = RequestError(f"{type(error).__name__}: {error}", None, 500)
        return respond(error.body(), error.status, error.headers())

    for kind in (RequestError, HTTPException, Exception):
        app.add_exception_handler(kind, refuse)

    async def models(request: Request) -> Response:
        check(request.scope)
        names = await service.models()
        rows = [{"id": name, "object": "model", "created": 0, "owned_by": "envace"} for name in names]
        return respond({"object": "list", "data": rows})

    async def health() -> dict[str, str]:
        return {"status": "ok"}

    async def read_metrics(request: Request) -> Response:
        check(request.scope)
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE})

    endpoint = ChatEndpoint(service, limits, gate, metrics, check)
    app.router.routes.append(Route("/v1/chat/completions", endpoint, methods=["POST"]))
    app.add_api_route("/v1/models", models, methods=["GET"])
    app.add_api_route("/health", health, methods=["GET"])
    app.add_api_route("/metrics", read_metrics, methods=["GET"])
    return app
