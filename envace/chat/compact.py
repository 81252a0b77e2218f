"""The compact chat template, in the `inline` layout: both roles in one stream.

    <|system|>TOOLS|STATE<|user|>GOAL[<|memory|>NOTES]<|act|>CALL<|env|>RESPONSE<|act|>ANSWER<|end|>

It has the structure of the Hermes/Qwen tool format (a call is `{"name":…,"arguments":…}`)
with one marker token a turn. The marker that ends a span belongs to the role that wrote
the span: the act role chooses between `<|env|>` (call) and `<|end|>` (answer), and the
environment role ends its response with `<|act|>`. A rehearsed episode is therefore one
uninterrupted generation. Responses to parallel calls are separated by `<|env|>`, so a
response may contain any text.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from envace.chat.stream import Span, TokenRole, TokenStream
from envace.chat.tokenizer import ACT, END, ENV, MARKERS, MEMORY, SYSTEM, USER, load
from envace.trajectory import Message, Tool, ToolCall, compact

CONTEXT = TokenRole.CONTEXT


class CompactTemplate:
    """Renders conversations to token streams and parses sampled tokens back."""

    def __init__(self, folder: Path | str) -> None:
        """Load the tokenizer from a model folder."""
        self.tokenizer = load(str(folder))
        self.vocabulary = self.tokenizer.get_vocab_size()

    end_ids = frozenset({END})
    """Markers after which an episode is over."""
    call_end = ENV
    """Marker by which the act role asks for a response."""
    response_end = ACT
    """Marker by which the environment role ends the last response of a turn."""
    act_stop_ids = environment_stop_ids = frozenset({ACT, ENV, END})
    """Every marker that can be sampled ends a turn; the illegal one is blamed on its writer."""
    forbidden_ids = frozenset(range(len(MARKERS))) - {ACT, ENV, END}
    """Markers that no role may sample."""

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text; markers in it are not special."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, without markers."""
        return self.tokenizer.decode([token for token in ids if token >= len(MARKERS)])

    def raw(self, ids: Sequence[int]) -> str:
        """Text of token ids with the markers spelled out."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=False)

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> TokenStream:
        """Render a conversation up to the point where the next role writes.

        A conversation that ends with a user, memory or tool turn ends in `<|act|>`; one
        that ends with calls ends in `<|env|>`; one that ends with an answer in `<|end|>`.
        """
        stream = TokenStream()
        for index, message in enumerate(messages):
            following = messages[index + 1] if index + 1 < len(messages) else None
            self._render_message(stream, message, following, tools)
        return stream

    def _render_message(
        self, stream: TokenStream, message: Message, following: Message | None, tools: Sequence[Tool]
    ) -> None:
        if message.role == "assistant":
            role = TokenRole.ACT if message.trainable else CONTEXT
            marker = ENV if message.tool_calls else END
            stream.add([*self.encode(act_text(message)), marker], role)
        elif message.role == "tool":
            role = TokenRole.ENV if message.trainable else CONTEXT
            more = following is not None and following.role == "tool"
            stream.add(self.response_ids(message.content, more), role)
        else:
            if message.role == "user":
                head, text = USER, message.content
            elif len(stream):
                head, text = MEMORY, message.content
            else:
                head, text = SYSTEM, f"{signatures(tools)}|{message.content}"
            if not len(stream) and head == USER and tools:
                stream.add([SYSTEM, *self.encode(f"{signatures(tools)}|")], CONTEXT)
            stream.add([head, *self.encode(text)], CONTEXT)
            if following is None or following.role == "assistant":
                stream.add([ACT], CONTEXT)

    def spans(self, sampled: Sequence[int]) -> list[Span]:
        """Split tokens sampled after an `<|act|>` into role spans, one a response.

        An illegal marker ends the last span and belongs to it: whoever wrote it is to blame.
        """
        spans: list[Span] = []
        role, start, awaited = TokenRole.ACT, 0, 0
        for index, token in enumerate(sampled):
            if token >= len(MARKERS):
                continue
            legal = token in (ENV, END) if role is TokenRole.ACT else self.ends_response(token, awaited > 1)
            spans.append(Span(role, start, index + 1, token if legal else None))
            if not legal or token == END:
                return spans
            if role is TokenRole.ACT:
                awaited = len(self.parse_act(sampled[start : index + 1]).tool_calls)
            else:
                awaited -= 1
            role = TokenRole.ENV if token == ENV else TokenRole.ACT
            start = index + 1
        if start < len(sampled):
            spans.append(Span(role, start, len(sampled), None))
        return spans

    def parse_act(self, sampled: Sequence[int]) -> Message:
        """Parse one act span (end marker included or not) into an assistant message."""
        calls_wanted = bool(sampled) and sampled[-1] == ENV
        text = self.decode(sampled)
        if not calls_wanted:
            return Message(role="assistant", content=text, author="policy")
        calls, prose = parse_calls(text)
        return Message(role="assistant", content=prose, tool_calls=calls, author="policy")

    def is_answer(self, sampled: Sequence[int]) -> bool:
        """True when the turn ended in `<|end|>`."""
        return bool(sampled) and sampled[-1] == END

    def call_opening(self, name: str) -> list[int]:
        """Up to the name; how it goes on is one unit of the tokenizer, so it is left to the act role."""
        return self.encode('{"name":"' + json.dumps(name, ensure_ascii=False)[1:-1])

    def after_act(self, context: Sequence[int], sampled: Sequence[int]) -> list[int]:
        """Nothing ever leaves the history."""
        return [*context, *sampled]

    def bridge_to_response(self, last: int) -> list[int]:
        """None: the marker that the act role chose opens the response."""
        return []

    def bridge_to_act(self, last: int) -> list[int]:
        """None: the marker that the environment role chose opens the act turn."""
        return []

    def response_ids(self, text: str, more: bool) -> list[int]:
        """A response with the marker that ends it."""
        return [*self.encode(text), ENV if more else ACT]

    def response_text(self, ids: Sequence[int]) -> str:
        """Text of one response, without its end."""
        return self.decode(ids)

    def ends_response(self, token: int, more: bool) -> bool:
        """`<|env|>` asks for the response to the next parallel call, `<|act|>` hands over."""
        return token == (ENV if more else ACT)


def signatures(tools: Sequence[Tool]) -> str:
    """Tools as call signatures, `name(argument,argument)`, separated by spaces."""
    return " ".join(f"{tool.name}({','.join(tool.parameters.get('properties', {}))})" for tool in tools)


def act_text(message: Message) -> str:
    """Text of an assistant turn: prose, then one call a line."""
    lines = [message.content] if message.content else []
    return "\n".join(lines + [call.text() for call in message.tool_calls])


def parse_calls(text: str) -> tuple[tuple[ToolCall, ...], str]:
    """Calls among the lines of a text, and the remaining lines as prose."""
    calls: list[ToolCall] = []
    prose: list[str] = []
    for line in text.split("\n"):
        call = parse_call(line)
        if call is None:
            prose.append(line)
        else:
            calls.append(call)
    return tuple(calls), "\n".join(prose)


def parse_call(line: str) -> ToolCall | None:
    """One `{"name":…,"arguments":{…}}` object, or None when the line is anything else."""
    try:
        value = json.loads(line)
        line.encode()
        compact(value).encode()
    except (ValueError, RecursionError):
        # A lone surrogate, raw or escaped, has no UTF-8 form and could not be rendered again.
        return None
    if not isinstance(value, dict) or set(value) != {"name", "arguments"}:
        return None
    if not isinstance(value["name"], str) or not isinstance(value["arguments"], dict):
        return None
    return ToolCall(name=value["name"], arguments=value["arguments"])
