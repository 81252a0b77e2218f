"""The ChatML/Hermes tool format, as Qwen3 uses it and SmolLM2 can.

    <|im_start|>system … <tools>…</tools> …<|im_end|>
    <|im_start|>user … <|im_end|>
    <|im_start|>assistant … <tool_call>{…}</tool_call><|im_end|>
    <|im_start|>user <tool_response>…</tool_response><|im_end|>

Source: the chat template published with Qwen3. The environment role continues the same chat: it
writes from `<tool_response>` to `</tool_response>`; where that marker is no token of its own, each
response is a user turn and `<|im_end|>` ends it. Everything between the turns is a bridge.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from envace.chat.compact import parse_call
from envace.chat.hermes_text import (
    CALL,
    CALL_END,
    EMPTY_THOUGHT,
    RESPONSE,
    RESPONSE_END,
    START,
    STOP,
    THINK,
    THINK_END,
    Mark,
    act_parts,
    split_thought,
    system_parts,
)
from envace.chat.stream import TokenRole, TokenStream
from envace.chat.tokenizer import load
from envace.errors import EnvaceError
from envace.trajectory import Message, Tool

CONTEXT = TokenRole.CONTEXT
Thinking = Literal["none", "empty", "written"]
History = Literal["kept", "qwen", "stripped"]
Piece = tuple[list[int], TokenRole, int]
"""Tokens, their role, and the index of the message they belong to."""


class HermesTemplate:
    """Renders and parses the Hermes format; see `Template` for the methods."""

    def __init__(
        self, folder: Path | str, thinking: Thinking | None = None, history: History = "kept"
    ) -> None:
        """Load the tokenizer from a model folder.

        Args:
            folder: Where `tokenizer.json` is.
            thinking: What stands before each act turn: thoughts `written` by the act role, an `empty`
                thought as scaffold, which is how Qwen3 is told not to think, or `none`. If not given,
                `empty` where the tokenizer knows `<think>`.
            history: What later turns see of thoughts: `kept`, all, so that every turn extends the
                prefix; `qwen`, as Qwen3 does: empty ones leave, and written ones once another user
                turn follows; `stripped`, nothing. What leaves the history forks the prefix.
        """
        self.tokenizer = load(str(folder))
        self.vocabulary = self.tokenizer.get_vocab_size()
        stop, self._call = self._id(STOP), (self._id(CALL), self._id(CALL_END))
        if stop is None:
            raise EnvaceError(f"{folder}: the tokenizer has no {STOP}", "choose a ChatML model")
        self._thought_end, close = self._id(THINK_END), self._id(RESPONSE_END)
        thinking = thinking or ("none" if self._thought_end is None else "empty")
        if thinking not in get_args(Thinking) or history not in get_args(History):
            raise EnvaceError(
                f"{folder}: thinking {thinking!r} and history {history!r}",
                f"thinking is one of {get_args(Thinking)}, history one of {get_args(History)}",
            )
        if self._thought_end is None and thinking != "none":
            raise EnvaceError(f"{folder}: the tokenizer has no {THINK_END}", "set thinking to none")
        self.thinking, self.history = thinking, history
        self.call_end = stop
        self.end_ids = frozenset({stop})
        self.response_end = stop if close is None else close
        self.act_stop_ids = self.environment_stop_ids = frozenset({stop, self.response_end})
        written = [STOP, RESPONSE_END, CALL, CALL_END, *([THINK, THINK_END] if thinking == "written" else [])]
        added = frozenset(self.tokenizer.get_added_tokens_decoder())
        self.forbidden_ids = added - {self._id(mark) for mark in written}
        self._empty = self._tokens(*EMPTY_THOUGHT) if thinking == "empty" else []

    def _id(self, mark: Mark) -> int | None:
        return self.tokenizer.token_to_id(mark)

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text; markers in it are not special."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, without markers."""
        return self.tokenizer.decode(list(ids))

    def raw(self, ids: Sequence[int]) -> str:
        """Text of token ids with the markers spelled out."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=False)

    def _tokens(self, *parts: str) -> list[int]:
        """Tokens of text with marks; a mark without a token of its own joins the text around it."""
        ids, plain = [], ""
        for part in parts:
            token = self._id(part) if isinstance(part, Mark) else None
            if token is None:
                plain += part
            else:
                ids += [*self.encode(plain), token]
                plain = ""
        return ids + self.encode(plain)

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> TokenStream:
        """Render a conversation up to the point where the next role writes.

        Where thoughts leave the history, a turn carries loss only if it stands behind the very
        tokens it would have been written behind: the policy must not train on a context that it
        never meets.
        """
        stream = TokenStream()
        for ids, role, index in self._pieces(messages, tools, tail=True):
            if role is not CONTEXT and self.history != "kept":
                tail = messages[index].role == "assistant"
                met = [token for piece in self._pieces(messages[:index], tools, tail) for token in piece[0]]
                bridge = [] if tail else self.bridge_to_response(met[-1])
                role = role if met + bridge == stream.ids else CONTEXT
            stream.add(ids, role)
        return stream

    def _pieces(self, messages: Sequence[Message], tools: Sequence[Tool], tail: bool) -> Iterator[Piece]:
        """The conversation in pieces of one role; `tail` adds the scaffold of the next turn."""
        last_user = max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)
        first = system_parts(messages, tools)
        if first:
            yield self._tokens(*first), CONTEXT, 0
        last: int | None = self.call_end if first else None
        for index, message in enumerate(messages):
            if index == 0 and message.role == "system":
                continue
            role = message.role
            if role == "tool":
                yield self.bridge_to_response(self.call_end if last is None else last), CONTEXT, index
                more = index + 1 < len(messages) and messages[index + 1].role == "tool"
                ids = self.response_ids(message.content, more)
                yield ids, TokenRole.ENV if message.trainable else CONTEXT, index
            elif role == "assistant":
                final = index == len(messages) - 1 and not message.tool_calls
                thought, content = split_thought(message.content)
                if self.thinking != "written":
                    thought = ""  # a logged one: a policy that does not think must not learn to
                kept = final or self.history == "kept" or (self.history == "qwen" and index > last_user)
                yield self._turn(last, "assistant"), CONTEXT, index
                if not thought and (final or self.history == "kept"):
                    yield self._empty, CONTEXT, index
                ids = self._tokens(*act_parts(thought if kept else "", content, message.tool_calls))
                # Without its thought a turn is not what the policy writes.
                yield ids, TokenRole.ACT if message.trainable and (kept or not thought) else CONTEXT, index
            else:
                ids = [*self._turn(last, role, message.content), self.call_end]
                yield ids, CONTEXT, index
            last = ids[-1]
        if tail and messages and messages[-1].role == "assistant" and messages[-1].tool_calls:
            yield self.bridge_to_response(self.call_end), CONTEXT, len(messages)
        elif tail and not (messages and messages[-1].role == "assistant"):
            yield [*self._turn(last, "assistant"), *self._empty], CONTEXT, len(messages)

    def _turn(self, last: int | None, role: str, content: str = "") -> list[int]:
        """Head of a turn behind one that `last` ended, with its text if it has any."""
        close = (STOP,) if last is not None and last != self.call_end else ()
        return self._tokens(*close, *(() if last is None else ("\n",)), START, f"{role}\n{content}")

    def bridge_to_response(self, last: int) -> list[int]:
        """A user turn that opens a response; another response of the same turn only opens itself."""
        if last == self.call_end:
            return self._tokens("\n", START, "user\n", RESPONSE, "\n")
        return self._tokens("\n", RESPONSE, "\n")

    def bridge_to_act(self, last: int) -> list[int]:
        """The end of the user turn, and the head of an assistant turn."""
        return [*self._turn(last, "assistant"), *self._empty]

    def response_ids(self, text: str, more: bool) -> list[int]:
        """A response to its end marker; every response has the same."""
        end = () if self.response_end != self.call_end else (STOP,)
        return self._tokens(f"{text}\n", RESPONSE_END, *end)

    def response_text(self, ids: Sequence[int]) -> str:
        """Text of one response, without its end and the newline in front of it."""
        text = self.decode(ids)
        if self.response_end == self.call_end:
            text = text.removesuffix(RESPONSE_END)
        return text.removesuffix("\n")

    def ends_response(self, token: int, more: bool) -> bool:
        """Either marker will do: the bridge closes what is open."""
        return token in self.environment_stop_ids

    def parse_act(self, sampled: Sequence[int]) -> Message:
        """Read a turn; one broken call spoils all, since executing the others would hide the fault."""
        prose, texts = self._split(sampled)
        calls = tuple(call for text in texts if (call := parse_call(text.strip())) is not None)
        if len(calls) < len(texts) or not self._finished(sampled):
            calls = ()
        return Message(role="assistant", content=prose.strip("\n"), tool_calls=calls, author="policy")

    def is_answer(self, sampled: Sequence[int]) -> bool:
        """True when the turn ended in `<|im_end|>`, its thought is closed and it holds no call."""
        return self._finished(sampled) and not self._split(sampled)[1]

    def _finished(self, sampled: Sequence[int]) -> bool:
        closed = self._id(THINK) not in sampled or self._thought_end in sampled
        return bool(sampled) and sampled[-1] == self.call_end and closed

    def call_opening(self, name: str) -> list[int]:
        """Up to the arguments, or up to the name."""
        named = json.dumps(name, ensure_ascii=False) + ', "arguments":' if name else '"'
        return self._tokens(CALL, f'\n{{"name": {named}')

    def after_act(self, context: Sequence[int], sampled: Sequence[int]) -> list[int]:
        """The stream with the turn, less the thought that leaves the history."""
        context = list(context)
        if self.history != "kept" and self._empty and context[-len(self._empty) :] == self._empty:
            del context[-len(self._empty) :]
        return context + list(self._without_thought(sampled) if self.history == "stripped" else sampled)

    def _without_thought(self, sampled: Sequence[int]) -> Sequence[int]:
        """A turn behind its thought and the newlines that follow it."""
        if self._thought_end is None or self._thought_end not in sampled:
            return sampled
        start = len(sampled) - list(sampled)[::-1].index(self._thought_end)
        while start < len(sampled) - 1 and not self.raw(sampled[start : start + 1]).strip("\n"):
            start += 1
        return sampled[start:]

    def _split(self, sampled: Sequence[int]) -> tuple[str, list[str]]:
        """Prose, and what stands in each pair of call markers; an unclosed call leaves an empty text."""
        ids = self._without_thought(sampled)
        items: Sequence[Any] = ids
        opening, closing = self._call
        if opening is None:
            items = re.split(f"({CALL}|{CALL_END})", self.decode(ids))
        cells: list[list[Any]] = [[]]
        for item in items:
            if item in ((closing, CALL_END) if len(cells) % 2 == 0 else (opening, CALL)):
                cells.append([])
            else:
                cells[-1].append(item)
        texts = ["".join(cell) if opening is None else self.decode(cell) for cell in cells]
        return "".join(texts[::2]), texts[1::2] + [""] * (len(cells) % 2 == 0)
