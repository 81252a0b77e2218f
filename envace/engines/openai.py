"""A client of OpenAI-compatible chat servers: retries, several endpoints, bounded concurrency."""

import json
import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from envace.engines.balance import Backoff, Balancer, ServerFailure
from envace.engines.openai_wire import BadReply, Reply, decode, read_reply, request_body
from envace.errors import EnvaceError
from envace.trajectory.records import Message, Tool

T = TypeVar("T")
R = TypeVar("R")

OVERLOADED = frozenset({408, 409, 425, 429})
"""Refusals that pass with time; every status from 500 on does too."""
CONNECT_SECONDS = 10.0
"""A server that does not even accept a connection is not waited for longer."""
DEFAULT_BACKOFF = Backoff()


class ChatError(EnvaceError):
    """No usable reply: the request was refused, or every attempt failed."""


class BadAnswerError(ChatError):
    """The last attempt was answered, but not with what was asked for: trying again later is no help."""


@dataclass(frozen=True)
class Cost:
    """What the requests of a client cost so far."""

    requests: int = 0
    """Requests sent, retries included."""
    failed: int = 0
    """Chats that got no usable reply in the end."""
    prompt_tokens: int = 0
    """Tokens read, as the servers report them."""
    completion_tokens: int = 0
    """Tokens written, as the servers report them."""


class ChatClient:
    """Asks one model behind one or several equal endpoints; safe to use from many threads."""

    def __init__(
        self,
        endpoints: Sequence[str],
        model: str,
        api_key_env: str = "",
        *,
        concurrency: int = 8,
        timeout: float = 60.0,
        attempts: int = 4,
        backoff: Backoff = DEFAULT_BACKOFF,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            endpoints: Base URLs, ending in `/v1` as a rule.
            model: Name that the servers know the model by.
            api_key_env: Environment variable with the bearer key; empty for none.
            concurrency: Requests in flight at most, over all endpoints.
            timeout: Seconds one request may take, from its start to the last byte.
            attempts: Requests at most for one chat.
            backoff: How long a failing endpoint rests.
            clock: Time in seconds.
            sleep: Waits that many seconds.

        Raises:
            EnvaceError: No endpoint, one that is no plain HTTP URL, or a key that is not usable.
        """
        self.model = model
        self.concurrency = concurrency
        self.timeout = timeout
        self.attempts = attempts
        self._key = read_key(api_key_env)
        self._balancer = Balancer([checked_url(url) for url in endpoints], backoff, clock)
        if not endpoints:
            raise EnvaceError(f"{model}: no endpoint", "name at least one base URL")
        if min(concurrency, attempts) < 1:
            raise EnvaceError(f"{model}: concurrency {concurrency}, attempts {attempts}", "both from 1 on")
        self._clock = clock
        self._sleep = sleep
        self._slots = threading.BoundedSemaphore(concurrency)
        self._cost = Cost()
        self._cost_lock = threading.Lock()
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else None,
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            limits=httpx.Limits(),  # none: a wait for a slot must not count as time of the request
        )

    @property
    def cost(self) -> Cost:
        """What was spent so far."""
        return self._cost

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def chat(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        schema: dict[str, Any] | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
        seed: int = 0,
        strict: bool = True,
    ) -> Reply:
        """Ask for one assistant turn; a reply that is not what was asked for is asked for anew.

        Args:
            messages: Conversation so far.
            tools: Tools on offer.
            schema: JSON schema that the content must satisfy; sent as `response_format`.
            temperature: 0 is greedy.
            max_tokens: Tokens at most; None leaves it to the server.
            seed: Of the server's sampler; each further attempt adds one.
            strict: Whether the schema is of the kind that OpenAI's strict mode takes.

        Raises:
            ChatError: The request was refused, or no attempt brought a usable reply.
        """
        body = request_body(self.model, messages, tools, schema, temperature, max_tokens, strict)
        error, reason = ChatError, ""
        for attempt in range(self.attempts):
            try:
                with self._balancer.lend() as (url, wait):
                    if wait:
                        self._sleep(wait)
                    with self._slots:
                        return self._attempt(url, body | {"seed": seed + attempt}, schema)
            except (ServerFailure, BadReply) as failure:
                error = BadAnswerError if isinstance(failure, BadReply) else ChatError
                reason = str(failure)
            except ChatError:
                self._count(failed=1)
                raise
        self._count(failed=1)
        raise error(
            f"{self.model}: no usable reply in {self.attempts} attempts, the last: {reason}",
            "see the server's log",
        )

    def each(self, ask: Callable[[T], R], items: Sequence[T]) -> Generator[R, None, None]:
        """Apply `ask` to every item from `concurrency` threads; results in the order of the items.

        The first exception surfaces here; what has not been started then is not.
        """
        pool = ThreadPoolExecutor(self.concurrency)
        try:
            for future in [pool.submit(ask, item) for item in items]:
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _attempt(self, url: str, body: dict[str, Any], schema: dict[str, Any] | None) -> Reply:
        self._count(requests=1)
        try:
            status, headers, content = self._post(f"{url}/chat/completions", body)
        except httpx.RequestError as error:
            raise ServerFailure(self._clean(f"{url}: {type(error).__name__}: {error}")) from error
        if status != 200:
            says = self._clean(f"{url} answered {status}: {content.decode(errors='replace')}")
            if status in OVERLOADED or status >= 500:
                raise ServerFailure(says, retry_after(headers.get("retry-after", "")))
            raise ChatError(f"{self.model}: {says}", "mend the endpoint, the model's name or the key")
        try:
            reply = read_reply(content)
            # What does not fit was paid for as well.
            self._count(prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens)
            return replace(reply, value=decode(reply.message.content, schema)) if schema else reply
        except BadReply as error:
            raise BadReply(self._clean(f"{url}: {error}")) from error

    def _post(self, url: str, body: dict[str, Any]) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body. httpx limits each read; the whole is limited here."""
        end = self._clock() + self.timeout
        # Escaped, because half a surrogate pair in somebody's text has no UTF-8 form.
        text = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        with self._http.stream("POST", url, content=text, headers=headers) as response:
            content = bytearray()
            for chunk in response.iter_bytes():
                content += chunk
                if self._clock() > end:
                    raise httpx.ReadTimeout(f"not done in {self.timeout:g} s")
            return response.status_code, response.headers, bytes(content)

    def _clean(self, text: str) -> str:
        """One short line; a server may quote the key it refused."""
        hidden = text.replace(self._key, "[key]") if self._key else text
        return " ".join(hidden.split())[:300]

    def _count(self, **more: int) -> None:
        with self._cost_lock:
            self._cost = replace(
                self._cost, **{name: getattr(self._cost, name) + value for name, value in more.items()}
            )


def read_key(variable: str) -> str:
    """The bearer key in an environment variable; empty where no variable is named.

    Raises:
        EnvaceError: It is not set, or could not stand in a header.
    """
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise EnvaceError(f"{variable} is not set", "export it with the server's key")
    # An HTTP library would quote a key it cannot send in its error.
    if not (key.isascii() and key.isprintable()):
        raise EnvaceError(f"{variable} holds characters that no key has", "export the server's key anew")
    return key


def checked_url(url: str) -> str:
    """A base URL without a trailing slash.

    Raises:
        EnvaceError: It is no HTTP URL, or carries a password, which errors would show.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise EnvaceError(f"{url!r} is no URL: {error}", "write http://host:port/v1") from error
    if parsed.userinfo or parsed.query:
        shown = f"{parsed.scheme}://{parsed.host}"
        raise EnvaceError(f"the endpoint at {shown} carries a secret", "name the key's environment variable")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise EnvaceError(f"{url!r} is no HTTP URL", "write http://host:port/v1")
    return url.rstrip("/")


def retry_after(header: str) -> float:
    """Seconds that a `Retry-After` header asks for, in either form; 0 where it asks for nothing."""
    try:
        if header.strip().isdecimal():
            return float(header)
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0
