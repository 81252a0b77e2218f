"""Our replies as OpenAI JSON: a chat completion, or the chunks of one that is streamed.

Source of the format: the OpenAI API reference, "Create chat completion" and "Streaming".
"""

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from envace.serve.backend import ChatReply, Delta, TokenLogprob
from envace.serve.openai_format import message_to_wire

DONE = b"data: [DONE]\n\n"
"""Last event of a stream."""


def event(value: Any) -> bytes:
    """A server-sent event; escaped, because half a surrogate pair has no UTF-8 form."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


class ReplyFormat:
    """Writes the answers to one request: all its chunks share an id and a time."""

    def __init__(self, model: str, with_trace: bool = False, include_usage: bool = False) -> None:
        """Answer in the name of `model`.

        Args:
            model: Name that the client asked for.
            with_trace: Whether the client wants to see the private rehearsal.
            include_usage: Whether a stream ends with a chunk that holds the usage.
        """
        self.model = model
        self.with_trace = with_trace
        self.include_usage = include_usage
        self.id = uuid.uuid4().hex[:24]
        self.created = int(time.time())
        self._told: dict[int, Delta] = {}

    def completion(self, reply: ChatReply) -> dict[str, Any]:
        """A reply as a chat completion object; our own field `rehearsal` holds the trace, if wanted."""
        choices = [
            {
                "index": index,
                "message": message_to_wire(message, f"{self.id}_{index}"),
                "finish_reason": reason,
                "logprobs": logprobs_to_wire(reply.logprobs[index]) if reply.logprobs else None,
            }
            for index, (message, reason) in enumerate(zip(reply.messages, reply.finish_reasons, strict=True))
        ]
        body = {**self._head("chat.completion"), "choices": choices, "usage": usage(reply)}
        return body | self._own(reply)

    def chunk(self, delta: Delta) -> bytes:
        """What was written of one turn as an event; the first of a turn names the role."""
        fields: dict[str, Any] = {} if delta.choice in self._told else {"role": "assistant"}
        past = self._told.get(delta.choice, Delta(choice=delta.choice))
        self._told[delta.choice] = Delta(
            choice=delta.choice, content=past.content + delta.content, logprobs=past.logprobs + delta.logprobs
        )
        if delta.content or fields:
            fields["content"] = delta.content
        return self._event(delta.choice, fields, logprobs=delta.logprobs)

    def end(self, reply: ChatReply) -> Iterator[bytes]:
        """The rest of every turn, its calls, why it ended, and the end of the stream."""
        for index, (message, reason) in enumerate(zip(reply.messages, reply.finish_reasons, strict=True)):
            told = self._told.get(index, Delta(choice=index))
            content = message.content.removeprefix(told.content)
            logprobs = reply.logprobs[index][len(told.logprobs) :] if reply.logprobs else ()
            if content or logprobs or index not in self._told:
                yield self.chunk(Delta(choice=index, content=content, logprobs=logprobs))
            calls = message_to_wire(message, f"{self.id}_{index}").get("tool_calls", ())
            for number, call in enumerate(calls):
                yield self._event(index, {"tool_calls": [{"index": number, **call}]})
            yield self._event(index, {}, reason)
        if self.include_usage or self._own(reply):
            counted = {"usage": usage(reply)} if self.include_usage else {}
            yield event({**self._head("chat.completion.chunk"), "choices": [], **counted, **self._own(reply)})
        yield DONE

    def _event(
        self,
        index: int,
        delta: dict[str, Any],
        reason: str | None = None,
        logprobs: Sequence[TokenLogprob] = (),
    ) -> bytes:
        choice = {
            "index": index,
            "delta": delta,
            "finish_reason": reason,
            "logprobs": logprobs_to_wire(logprobs) if logprobs else None,
        }
        counted = {"usage": None} if self.include_usage else {}
        return event({**self._head("chat.completion.chunk"), "choices": [choice], **counted})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.id}", "object": kind, "created": self.created, "model": self.model}

    def _own(self, reply: ChatReply) -> dict[str, Any]:
        if not self.with_trace or reply.trace is None:
            return reply.own_fields()
        return {"rehearsal": {"trace": reply.trace.model_dump(mode="json")}, **reply.own_fields()}


def usage(reply: ChatReply) -> dict[str, Any]:
    """Tokens of a reply.

    `completion_tokens` counts the turns returned; private rehearsal is reported apart, under
    `completion_tokens_details.rehearsal_tokens`, and `total_tokens` holds both and the prompt.
    """
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens + reply.rehearsal_tokens,
        "completion_tokens_details": {"rehearsal_tokens": reply.rehearsal_tokens},
    }


def logprobs_to_wire(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    """Log-probabilities as a choice's `logprobs`."""
    content = [
        _token(item.token, item.logprob) | {"top_logprobs": [_token(*pair) for pair in item.top]}
        for item in tokens
    ]
    return {"content": content, "refusal": None}


def _token(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode(errors="replace"))}
