"""Another OpenAI-compatible server as a service: requests and answers pass through as they are.

Its own field `rehearsal`, or a model name `NAME@STRATEGY`, asks for a private rehearsal first; the
upstream server sees neither.
"""

import json
import re
from collections.abc import AsyncGenerator
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from envace.engines.openai import CONNECT_SECONDS, checked_url, read_key
from envace.engines.openai_wire import WireUsage
from envace.rehearsal.strategies import STRATEGIES
from envace.serve.errors import RequestError
from envace.serve.openai_format import WireRehearsal
from envace.serve.service import Answer, Tokens
from envace.serve.upstream_rehearsal import OFFERED, Prepared, prepare
from envace.trajectory.jsonl import describe

UPSTREAM_KEY_VARIABLE = "ENVACE_UPSTREAM_KEY"
"""Environment variable with the upstream server's key."""
TAIL = 4096
"""Bytes at the end of a stream in which its usage is looked for."""


class Envelope(BaseModel):
    """What of a request concerns us; everything else is the upstream server's affair."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    stream: bool | None = None
    rehearsal: WireRehearsal | None = None


class UpstreamService:
    """Forwards to a server."""

    def __init__(self, url: str, key_variable: str = "", branches: int = 8) -> None:
        """Prepare; nothing is sent yet.

        Args:
            url: Base URL, ending in `/v1` as a rule.
            key_variable: Environment variable with its key; empty for none.
            branches: Branches of a private rehearsal whose name says no number.

        Raises:
            EnvaceError: No plain HTTP URL, or a key that is not usable.
        """
        self.url = checked_url(url)
        self.branches = branches
        key = read_key(key_variable)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.AsyncClient(
            headers={"content-type": "application/json", **headers},
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),  # the endpoint limits the whole
            limits=httpx.Limits(),  # so does the gate
        )
        self._spent = Tokens()

    async def models(self) -> list[str]:
        """See `Service`; those of the upstream server, each also with every strategy."""
        reply = await self._send("GET", "models")
        try:
            names = [str(row["id"]) for row in json.loads(await reply.aread())["data"]]
        except (ValueError, LookupError, TypeError) as error:
            raise RequestError("the upstream server lists no models", None, 502) from error
        finally:
            await reply.aclose()
        plain = dict.fromkeys(read_name(name)[0] for name in names)
        return [*plain, *(f"{name}@{strategy}" for name in plain for strategy in OFFERED)]

    def spent(self) -> Tokens:
        """See `Service`; streams count where they report their usage."""
        return self._spent

    async def close(self) -> None:
        """See `Service`."""
        await self._http.aclose()

    async def answer(self, body: bytes) -> Answer:
        """See `Service`."""
        try:
            envelope = Envelope.model_validate_json(body)
        except ValidationError as error:
            raise RequestError(describe(error)) from error
        name, strategy = read_name(envelope.model or "")
        asked = envelope.rehearsal or WireRehearsal()
        strategy = asked.strategy or strategy
        prepared = Prepared()
        if strategy or envelope.rehearsal:
            fields = {key: value for key, value in json.loads(body).items() if key != "rehearsal"}
            fields |= {"model": name} if envelope.model else {}
            prepared = await prepare(strategy or "none", fields, self.branches, self.ask)
            body = json.dumps(prepared.fields).encode()
        reply = await self._send("POST", "chat/completions", body)
        if envelope.stream and reply.status_code == 200:
            return Answer(b"", self._piped(reply, prepared, asked.trace))
        try:
            content = await self._read(reply)
        finally:
            await reply.aclose()
        if reply.status_code == 200:
            content = self._counted(content, prepared, asked.trace)
        kept = {key: value for key, value in reply.headers.items() if key in ("content-type", "retry-after")}
        return Answer(content, status=reply.status_code, headers=kept)

    async def ask(self, fields: dict[str, Any]) -> bytes:
        """One more completion in private, not streamed.

        Raises:
            RequestError: The upstream server refuses or fails.
        """
        reply = await self._send("POST", "chat/completions", json.dumps(fields).encode())
        try:
            content = await self._read(reply)
        finally:
            await reply.aclose()
        if reply.status_code != 200:
            says = " ".join(content.decode(errors="replace").split())[:300]
            status = reply.status_code if 400 <= reply.status_code < 500 else 502
            raise RequestError(f"upstream, in rehearsal: {says}", None, status)
        return content

    async def _send(self, method: str, path: str, body: bytes | None = None) -> httpx.Response:
        """A response whose body is still to come."""
        request = self._http.build_request(method, f"{self.url}/{path}", content=body)
        try:
            return await self._http.send(request, stream=True)
        except httpx.HTTPError as error:
            raise unreachable(error) from error

    async def _read(self, reply: httpx.Response) -> bytes:
        try:
            return await reply.aread()
        except httpx.HTTPError as error:
            raise unreachable(error) from error

    async def _piped(
        self, reply: httpx.Response, prepared: Prepared, trace: bool
    ) -> AsyncGenerator[bytes, None]:
        """The events of a stream as they come; behind a rehearsal its trace comes first."""
        usage, tail = WireUsage(), b""
        try:
            if trace and prepared.trace is not None:
                yield b"data: " + json.dumps({"choices": [], **traced(prepared)}).encode() + b"\n\n"
            if prepared.trace is None:
                async for chunk in reply.aiter_bytes():
                    tail = (tail + chunk)[-TAIL:]
                    yield chunk
            else:
                async for line in reply.aiter_lines():
                    tail = line.encode() if '"usage"' in line else tail
                    yield self._priced(line, prepared).encode() + b"\n"
        except httpx.HTTPError as error:
            raise unreachable(error) from error
        finally:
            await reply.aclose()
        for line in tail.decode(errors="replace").splitlines():
            usage = read_usage(read_event(line)) if '"usage"' in line else usage
        self._count(usage, prepared)

    def _priced(self, line: str, prepared: Prepared) -> str:
        """A line of a stream, the cost of the rehearsal added where it tells a usage."""
        event = read_event(line) if '"usage"' in line else None
        if not event or not event.get("usage"):
            return line
        return "data: " + json.dumps(with_cost(event, prepared))

    def _counted(self, content: bytes, prepared: Prepared, trace: bool) -> bytes:
        """A completion, the cost of a rehearsal added to its usage."""
        try:
            completion = json.loads(content)
        except ValueError:
            return content
        self._count(read_usage(completion), prepared)
        if prepared.trace is None or not isinstance(completion, dict):
            return content
        return json.dumps(with_cost(completion, prepared) | (traced(prepared) if trace else {})).encode()

    def _count(self, usage: WireUsage, prepared: Prepared) -> None:
        self._spent = self._spent.plus(usage.prompt_tokens, usage.completion_tokens, prepared.tokens)


def read_name(model: str) -> tuple[str, str]:
    """The upstream server's name of a model, and the strategy behind it if there is one."""
    name, _, suffix = model.rpartition("@")
    return (name, suffix) if name and re.split("[-+]", suffix)[0] in STRATEGIES else (model, "")


def unreachable(error: httpx.HTTPError) -> RequestError:
    """The upstream server cannot be reached, or breaks off."""
    return RequestError(f"upstream: {type(error).__name__}: {error}", "upstream_error", 502)


def read_event(line: str) -> dict[str, Any] | None:
    """The object of a stream's line, if it holds one."""
    try:
        value = json.loads(line.removeprefix("data:"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_usage(completion: Any) -> WireUsage:
    """The usage of a completion or chunk; zeros where it tells none that can be read."""
    try:
        return WireUsage.model_validate(completion["usage"] or {})
    except (ValidationError, LookupError, TypeError):
        return WireUsage()


def with_cost(completion: dict[str, Any], prepared: Prepared) -> dict[str, Any]:
    """A completion or chunk whose usage tells the tokens of the rehearsal apart."""
    usage, told = read_usage(completion), completion.get("usage") or {}
    details = (told.get("completion_tokens_details") or {}) | {"rehearsal_tokens": prepared.tokens}
    total = usage.prompt_tokens + usage.completion_tokens + prepared.tokens
    return completion | {"usage": told | {"total_tokens": total, "completion_tokens_details": details}}


def traced(prepared: Prepared) -> dict[str, Any]:
    """Our own field of a reply."""
    return {"rehearsal": {"trace": prepared.trace.model_dump(mode="json") if prepared.trace else None}}
