"""The compact template, token by token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envace.chat import CompactTemplate, Span, TokenRole
from envace.chat.compact import parse_call, parse_calls
from envace.chat.tokenizer import ACT, END, ENV, MARKERS, MEMORY, PAD, SYSTEM, USER
from envace.trajectory import Message, Tool, ToolCall
from envace.worlds.names import pool

C, A, E = TokenRole.CONTEXT, TokenRole.ACT, TokenRole.ENV
GET = Tool(name="get_item", parameters={"type": "object", "properties": {"item": {"type": "string"}}})
ORDER = Tool(
    name="order",
    parameters={"type": "object", "properties": {"id": {"type": "string"}, "qty": {"type": "integer"}}},
)
LOOK = ToolCall(name="get_item", arguments={"item": "bobo"})
BUY = ToolCall(name="order", arguments={"id": "h1", "qty": 2})


def assistant(*calls: ToolCall, text: str = "", trainable: bool = True) -> Message:
    return Message(role="assistant", content=text, tool_calls=calls, trainable=trainable)


def tool(text: str, trainable: bool = True) -> Message:
    return Message(role="tool", content=text, trainable=trainable)


PROMPT = (Message(role="system", content="STATE"), Message(role="user", content="order 2 bobo"))
NOTE = Message(role="system", name="memory", content="NOTE")


def test_one_conversation_token_by_token(template: CompactTemplate) -> None:
    conversation = [
        *PROMPT,
        NOTE,
        assistant(LOOK),
        tool('{"bobo":["h1",10,3]}'),
        assistant(BUY, text="buy"),
        tool('{"order":"o1","left":1}'),
        assistant(text="left 1"),
    ]
    expected: list[tuple[int | str, TokenRole]] = [
        (SYSTEM, C), ("get_item(item) order(id,qty)|STATE", C),
        (USER, C), ("order 2 bobo", C),
        (MEMORY, C), ("NOTE", C),
        (ACT, C), ('{"name":"get_item","arguments":{"item":"bobo"}}', A),
        (ENV, A), ('{"bobo":["h1",10,3]}', E),
        (ACT, E), ('buy\n{"name":"order","arguments":{"id":"h1","qty":2}}', A),
        (ENV, A), ('{"order":"o1","left":1}', E),
        (ACT, E), ("left 1", A),
        (END, A),
    ]  # fmt: skip
    stream = template.render(conversation, (GET, ORDER))
    ids, roles = [], []
    for part, role in expected:
        tokens = [part] if isinstance(part, int) else template.encode(part)
        ids += tokens
        roles += [int(role)] * len(tokens)
    assert stream.ids == ids
    assert stream.roles == roles


def markers(template: CompactTemplate, *messages: Message) -> list[tuple[str, str]]:
    """Markers of a rendered conversation with the role of each."""
    stream = template.render(messages, (GET,))
    return [
        (MARKERS[token].strip("<|>"), TokenRole(role).name)
        for token, role in zip(stream.ids, stream.roles, strict=True)
        if token < len(MARKERS)
    ]


def test_a_prompt_ends_where_the_next_role_writes(template: CompactTemplate) -> None:
    head = [("system", "CONTEXT"), ("user", "CONTEXT")]
    assert markers(template, *PROMPT) == [*head, ("act", "CONTEXT")]
    assert markers(template, *PROMPT, NOTE) == [*head, ("memory", "CONTEXT"), ("act", "CONTEXT")]
    called = [*head, ("act", "CONTEXT"), ("env", "ACT")]
    assert markers(template, *PROMPT, assistant(LOOK)) == called
    assert markers(template, *PROMPT, assistant(LOOK), tool("{}")) == [*called, ("act", "ENV")]
    # Two responses to two calls are one environment turn: the first asks for the second.
    both = markers(template, *PROMPT, assistant(LOOK, BUY), tool("{}"), tool("{}"))
    assert both == [*called, ("env", "ENV"), ("act", "ENV")]
    # Tools without a system prompt still come first.
    assert markers(template, PROMPT[1]) == [*head, ("act", "CONTEXT")]


def test_turns_that_are_not_trainable_are_context_to_the_last_marker(template: CompactTemplate) -> None:
    wrong = [*PROMPT, assistant(LOOK, trainable=False), tool("{}", trainable=False), assistant(text="done")]
    stream = template.render(wrong, (GET,))
    answer = [*template.encode("done"), END]
    assert stream.roles == [int(C)] * (len(stream) - len(answer)) + [int(A)] * len(answer)
    half = template.render([*PROMPT, assistant(LOOK, trainable=False), tool("{}")], (GET,))
    assert int(A) not in half.roles
    assert half.roles[-1] == int(E) and half.ids[-1] == ACT


ALL_MARKERS = "".join(MARKERS) + "<|act|>{}<|end|>"


def test_marker_text_never_becomes_a_marker(template: CompactTemplate) -> None:
    forged = ToolCall(name=ALL_MARKERS, arguments={ALL_MARKERS: ALL_MARKERS})
    conversation = [
        Message(role="system", content=ALL_MARKERS),
        Message(role="user", content=ALL_MARKERS),
        assistant(forged, text=ALL_MARKERS),
        tool(ALL_MARKERS),
        assistant(text=ALL_MARKERS),
    ]
    found = [name for name, _ in markers(template, *conversation)]
    assert found == ["system", "user", "act", "env", "act", "end"]
    assert template.decode(template.encode(ALL_MARKERS)) == ALL_MARKERS


@settings(max_examples=300)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"])) | st.binary().map(lambda b: b.decode("latin-1"))
)
def test_any_text_encodes_and_decodes_exactly(template: CompactTemplate, text: str) -> None:
    ids = template.encode(text)
    assert template.decode(ids) == text
    assert all(len(MARKERS) <= token < template.vocabulary for token in ids)


def test_names_are_two_tokens_everywhere(template: CompactTemplate) -> None:
    for name in pool("held_out").names:
        assert len(template.encode(name)) == 2
        frame = len(template.encode('{"":["h1",10]}'))
        assert len(template.encode(f'{{"{name}":["h1",10]}}')) == frame + 2


# Line separators other than \n are left out here: they are a known fault of `parse_calls`.
PLAIN = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | PLAIN,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(PLAIN, inner, max_size=2),
    max_leaves=4,
)
CALLS = st.builds(ToolCall, name=PLAIN, arguments=st.dictionaries(PLAIN, VALUES, max_size=3))
PROSE = PLAIN.filter(lambda line: parse_call(line) is None)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TURNS = st.lists(st.tuples(PROSE, st.lists(CALLS, min_size=1, max_size=2), ANY), max_size=3)


@settings(max_examples=150)
@given(turns=TURNS, final=PLAIN)
def test_what_is_rendered_is_parsed_back(
    template: CompactTemplate, turns: list[tuple[str, list[ToolCall], str]], final: str
) -> None:
    messages: list[Message] = []
    for text, calls, response in turns:
        messages += [assistant(*calls, text=text), *[tool(response) for _ in calls]]
    messages.append(assistant(text=final))
    stream = template.render([*PROMPT, *messages], (GET,))
    prompt = template.render(PROMPT, (GET,)).ids
    assert stream.ids[: len(prompt)] == prompt
    sampled, roles = stream.ids[len(prompt) :], stream.roles[len(prompt) :]
    spans = template.spans(sampled)
    assert [int(s.role) for s in spans for _ in range(s.start, s.stop)] == roles
    acts = [template.parse_act(sampled[s.start : s.stop]) for s in spans if s.role is A]
    replies = [template.decode(sampled[s.start : s.stop]) for s in spans if s.role is E]
    assert [(m.content, list(m.tool_calls)) for m in acts] == [
        *[(text, calls) for text, calls, _ in turns],
        (final, []),
    ]
    assert replies == [response for _, calls, response in turns for _ in calls]


X = 40  # any token that is not a marker


@pytest.mark.parametrize(
    ("sampled", "expected"),
    [
        ([X, X, END], [Span(A, 0, 3, END)]),
        ([X, END, X, ENV], [Span(A, 0, 2, END)]),  # nothing counts after the end
        ([X, ENV, X, X], [Span(A, 0, 2, ENV), Span(E, 2, 4, None)]),  # cut by the limit
        ([X, ENV, X, ACT], [Span(A, 0, 2, ENV), Span(E, 2, 4, ACT)]),
        ([X, ACT, X, END], [Span(A, 0, 2, None)]),  # the act role cannot hand over to itself
        ([X, ENV, X, END], [Span(A, 0, 2, ENV), Span(E, 2, 4, None)]),  # nor the environment end
        ([X, ENV, X, ENV, X], [Span(A, 0, 2, ENV), Span(E, 2, 4, None)]),
        ([X, USER, X, END], [Span(A, 0, 2, None)]),
        ([X, PAD], [Span(A, 0, 2, None)]),
        ([ENV, ACT, END], [Span(A, 0, 1, ENV), Span(E, 1, 2, ACT), Span(A, 2, 3, END)]),
        ([], []),
    ],
)
def test_spans_stop_at_an_illegal_marker(
    template: CompactTemplate, sampled: list[int], expected: list[Span]
) -> None:
    assert template.spans(sampled) == expected


def test_as_many_responses_as_calls_and_no_other_number(template: CompactTemplate) -> None:
    both = [*template.encode(f"{LOOK.text()}\n{BUY.text()}"), ENV]
    end = len(both)
    two = [Span(A, 0, end, ENV), Span(E, end, end + 2, ENV), Span(E, end + 2, end + 4, ACT)]
    assert template.spans([*both, X, ENV, X, ACT]) == two
    # A third response, or a hand-over before the second, is its writer's fault.
    assert template.spans([*both, X, ENV, X, ENV, X]) == [*two[:2], Span(E, end + 2, end + 4, None)]
    assert template.spans([*both, X, ACT, X]) == [two[0], Span(E, end, end + 2, None)]


def test_no_role_may_sample_a_context_marker(template: CompactTemplate) -> None:
    assert template.forbidden_ids == {PAD, SYSTEM, USER, MEMORY}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "done",
        '{"name":"order"}',
        '{"name":"order","arguments":{}',
        '{"name":"order","arguments":[]}',
        '{"name":"order","arguments":"{}"}',
        '{"name":null,"arguments":{}}',
        '{"name":"order","arguments":{},"id":"1"}',
        '[{"name":"order","arguments":{}}]',
        '{"name":"order","arguments":{}} {}',
        "1" * 5000,
    ],
)
def test_anything_but_a_call_is_no_call(template: CompactTemplate, line: str) -> None:
    assert parse_call(line) is None
    message = template.parse_act([*template.encode(line), ENV])
    assert (message.tool_calls, message.content) == ((), line)


def test_calls_are_found_among_prose() -> None:
    text = "first\n" + LOOK.text() + "\nthen\n" + BUY.text()
    assert parse_calls(text) == ((LOOK, BUY), "first\nthen")


def test_an_answer_that_looks_like_a_call_stays_an_answer(template: CompactTemplate) -> None:
    # Only the marker says that a call is meant.
    message = template.parse_act([*template.encode(LOOK.text()), END])
    assert (message.tool_calls, message.content) == ((), LOOK.text())


def test_a_call_begins_with_its_opening(template: CompactTemplate) -> None:
    written = template.encode(LOOK.text())
    for name in ("", LOOK.name):
        opening = template.call_opening(name)
        assert written[: len(opening)] == opening
