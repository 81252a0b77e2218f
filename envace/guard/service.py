"""`envace serve --upstream URL --guard FILE`: the guard in front of another server, on the wire.

A completion passes as the upstream server wrote it; in place of a turn with a call that is stopped
stand the guard's words. A streamed answer is asked for whole, since no call may leave before it is
decided on, and then sent as a stream.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, get_args

from pydantic import ValidationError

from envace.guard.backend import Examiner, GuardedReply
from envace.serve.backend import ChatReply, ChatRequest, FinishReason
from envace.serve.errors import RequestError
from envace.serve.local import Remote
from envace.serve.openai_format import Lenient, WireMessage, WireRequest, message_from_wire, request_from_wire
from envace.serve.reply_format import ReplyFormat
from envace.serve.service import Answer, Service, Tokens
from envace.trajectory.jsonl import describe

ENDS: dict[str, FinishReason] = {name: name for name in get_args(FinishReason)}
"""Reasons that we know; in the completion that passes, others stay as they are."""


class Choice(Lenient):
    """One entry of `choices`."""

    message: WireMessage
    finish_reason: str | None = None


class Completion(Lenient):
    """What of a completion concerns the guard."""

    choices: list[Choice]


class GuardedService:
    """Forwards to a service and goes over its answers."""

    def __init__(self, inner: Service, examiner: Examiner, threads: int) -> None:
        """Wrap a service; up to `threads` answers are gone over at once."""
        self.inner = inner
        self.examiner = examiner
        self._pool = ThreadPoolExecutor(threads, "guard")
        self._rehearsed = 0

    async def models(self) -> list[str]:
        """See `Service`."""
        return await self.inner.models()

    def spent(self) -> Tokens:
        """See `Service`; the guard's rehearsals are among the private tokens."""
        return self.inner.spent().plus(0, 0, self._rehearsed)

    async def close(self) -> None:
        """See `Service`."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        await self.inner.close()

    async def answer(self, body: bytes) -> Answer:
        """See `Service`."""
        try:
            wire = WireRequest.model_validate_json(body)
            request = request_from_wire(wire, "")
        except ValidationError as error:
            raise RequestError(describe(error)) from error
        fields = {k: v for k, v in json.loads(body).items() if k not in ("stream", "stream_options")}
        answer = await self.inner.answer(json.dumps(fields).encode())
        if answer.status != 200:
            return answer
        completion, reply = read_completion(answer.body)
        guarded = await self._gone_over(request, reply)
        if not wire.stream:
            return replace(answer, body=json.dumps(patched(completion, reply, guarded)).encode())
        usage = bool(wire.stream_options and wire.stream_options.include_usage)
        events = _events(ReplyFormat(completion.get("model") or request.model, False, usage), guarded)
        return Answer(await anext(events), events)

    async def _gone_over(self, request: ChatRequest, reply: ChatReply) -> GuardedReply:
        remote = Remote()
        work = asyncio.get_running_loop().run_in_executor(
            self._pool, self.examiner.guarded, request, reply, remote
        )
        try:
            guarded = await work
        finally:
            remote.leave()
        self._rehearsed += guarded.rehearsal_tokens - reply.rehearsal_tokens
        return guarded


async def _events(form: ReplyFormat, reply: GuardedReply) -> AsyncGenerator[bytes, None]:
    for event in form.end(reply):
        yield event


def read_completion(body: bytes) -> tuple[dict[str, Any], ChatReply]:
    """A completion as it stands, and what the guard reads of it.

    Raises:
        RequestError: It is none, or holds a turn that cannot be read: nobody could say what it would do.
    """
    try:
        completion = json.loads(body)
        choices = Completion.model_validate(completion).choices
        messages = tuple(message_from_wire(choice.message) for choice in choices)
    except (ValueError, ValidationError) as error:
        reason = describe(error) if isinstance(error, ValidationError) else str(error)
        raise RequestError(f"the guard cannot read the upstream answer: {reason}", None, 502) from error
    usage = completion.get("usage") or {}
    private = (usage.get("completion_tokens_details") or {}).get("rehearsal_tokens") or 0
    return completion, ChatReply(
        messages=messages,
        finish_reasons=tuple(ENDS.get(choice.finish_reason or "", "stop") for choice in choices),
        prompt_tokens=usage.get("prompt_tokens") or 0,
        completion_tokens=usage.get("completion_tokens") or 0,
        rehearsal_tokens=private,
    )


def patched(completion: dict[str, Any], reply: ChatReply, guarded: GuardedReply) -> dict[str, Any]:
    """The completion with the guard's words in place of the turns it stopped, its verdicts and its cost."""
    choices = []
    for choice, former, message in zip(completion["choices"], reply.messages, guarded.messages, strict=True):
        if message is not former:
            words = {"role": "assistant", "content": message.content}
            choice = choice | {"message": words, "finish_reason": "stop", "logprobs": None}
        choices.append(choice)
    fields: dict[str, Any] = {"choices": choices, **guarded.own_fields()}
    if cost := guarded.rehearsal_tokens - reply.rehearsal_tokens:
        usage = completion.get("usage") or {}
        details = (usage.get("completion_tokens_details") or {}) | {
            "rehearsal_tokens": guarded.rehearsal_tokens
        }
        total = (usage.get("total_tokens") or 0) + cost
        fields["usage"] = usage | {"total_tokens": total, "completion_tokens_details": details}
    return completion | fields
