"""A backend in this process as a service: its work happens in threads, a leaving client ends it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor

from pydantic import ValidationError

from envace.serve.backend import (
    CallerGoneError,
    ChatBackend,
    ChatReply,
    ChatRequest,
    ConcurrentBackend,
    ContextTooLongError,
    Delta,
)
from envace.serve.errors import RequestError
from envace.serve.openai_format import WireRequest, request_from_wire
from envace.serve.reply_format import ReplyFormat
from envace.serve.service import Answer, Tokens
from envace.trajectory.jsonl import describe


class Remote:
    """The client at the far end, for the thread that works for it."""

    def __init__(self, listen: Callable[[Delta], object] | None = None) -> None:
        """Pass what is written on to `listen`, from the thread that writes."""
        self.streaming = listen is not None
        self._listen = listen
        self._here = True

    def waiting(self) -> bool:
        """Until it leaves."""
        return self._here

    def tell(self, delta: Delta) -> None:
        """Pass it on."""
        if self._listen is not None and self._here:
            self._listen(delta)

    def leave(self) -> None:
        """Whatever is still at work for it may stop."""
        self._here = False


class LocalService:
    """Serves a backend."""

    def __init__(self, backend: ChatBackend, threads: int) -> None:
        """Work in up to `threads` threads, or in one if the backend is no `ConcurrentBackend`."""
        self.backend = backend
        self._pool = ThreadPoolExecutor(threads if isinstance(backend, ConcurrentBackend) else 1, "chat")
        self._spent = Tokens()

    async def models(self) -> list[str]:
        """See `Service`."""
        return self.backend.models()

    def spent(self) -> Tokens:
        """See `Service`."""
        return self._spent

    async def close(self) -> None:
        """See `Service`."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def answer(self, body: bytes) -> Answer:
        """See `Service`."""
        try:
            wire = WireRequest.model_validate_json(body)
            request = request_from_wire(wire, self.backend.models()[0])
        except ValidationError as error:
            raise RequestError(describe(error)) from error
        usage = bool(wire.stream_options and wire.stream_options.include_usage)
        form = ReplyFormat(request.model, bool(wire.rehearsal and wire.rehearsal.trace), usage)
        if not wire.stream:
            reply = await self._work(request, Remote())
            return Answer(json.dumps(form.completion(reply)).encode())
        events = self._events(request, form)
        return Answer(await anext(events), events)

    async def _work(self, request: ChatRequest, remote: Remote) -> ChatReply:
        """Let a thread write the reply."""
        try:
            reply = await asyncio.get_running_loop().run_in_executor(self._pool, self._write, request, remote)
        except ContextTooLongError as error:
            raise RequestError(str(error), "context_length_exceeded") from error
        finally:
            remote.leave()
        self._spent = self._spent.plus(reply.prompt_tokens, reply.completion_tokens, reply.rehearsal_tokens)
        return reply

    def _write(self, request: ChatRequest, remote: Remote) -> ChatReply:
        if not remote.waiting():
            raise CallerGoneError("the caller left")
        try:
            if isinstance(self.backend, ConcurrentBackend):
                reply = self.backend.answer(request, remote)
            elif request.model in self.backend.models():
                reply = self.backend.reply(request)
            else:
                raise RequestError(f"no model {request.model!r}: see /v1/models", "model_not_found", 404)
        except StopIteration as error:
            # A future cannot carry this one: whoever awaits it would wait for ever.
            raise RuntimeError("StopIteration in the backend") from error
        if request.alternatives is not None and reply.logprobs is None:
            raise RequestError("logprobs: this model gives no log-probabilities", "unsupported_value")
        return reply

    async def _events(self, request: ChatRequest, form: ReplyFormat) -> AsyncGenerator[bytes, None]:
        """The events of a streamed reply; the first comes once something is written."""
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[Delta | None] = asyncio.Queue()
        remote = Remote(lambda delta: loop.call_soon_threadsafe(heard.put_nowait, delta))
        work = asyncio.create_task(self._work(request, remote))

        def end(done: asyncio.Task[ChatReply]) -> None:
            done.cancelled() or done.exception()  # seen, even if nobody reads to the end
            heard.put_nowait(None)

        work.add_done_callback(end)
        try:
            while (delta := await heard.get()) is not None:
                yield form.chunk(delta)
            for event in form.end(await work):
                yield event
        finally:
            work.cancel()
