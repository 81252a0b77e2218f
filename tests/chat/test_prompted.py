"""The environment role's own conversation: sections, and what leaves when it gets too long."""

from dataclasses import fields, replace
from typing import Any

import pytest

from envace.chat import CompactTemplate, TokenRole
from envace.chat.prompted import (
    CONTRACT,
    LEFT_OUT,
    PromptedLayout,
    Situation,
    environment_prompt,
    environment_streams,
)
from envace.chat.tokenizer import END
from envace.engines import Sampling
from envace.errors import EnvaceError
from envace.rollout.answered import answered_episodes
from envace.rollout.predict import held_out_calls, predict
from envace.rollout.responders import RehearsalResponder
from envace.trajectory import Message, Task, Tool, ToolCall
from envace.worlds.tasks import pose

GET = Tool(
    name="get_item",
    parameters={"type": "object", "properties": {"item": {"type": "string"}}},
    returns={"type": "object"},
)
CALL, EARLIER = (ToolCall(name="get_item", arguments={"item": item}) for item in ("bobo", "dada"))
TURNS = [
    Message(role="user", content="price of both"),
    Message(role="assistant", content="first", tool_calls=(EARLIER,)),
    Message(role="tool", name="get_item", content='{"dada":7}'),
]
SITUATION = Situation(
    tools=(GET,),
    messages=(Message(role="system", content="bobo 3, dada 7"), *TURNS),
    caller=f"{CALL.text()}<|env|>",
    call=CALL,
    references=((EARLIER, '{"dada":7}'),),
)
SECTIONS = {
    "tools": "# tools\nget_item(item)",
    "state": "# state\nbobo 3, dada 7",
    "references": f'# recorded calls\n{EARLIER.text()} -> {{"dada":7}}',
    "history": f'# history\nuser: price of both\nassistant: first\n{EARLIER.text()}\ntool: {{"dada":7}}',
    "caller": f"# caller\n{CALL.text()}<|env|>",
    "schema": '# schema\n{"parameters":{"type":"object","properties":{"item":{"type":"string"}}},'
    '"returns":{"type":"object"}}',
}
CALLED = f"# call\n{CALL.text()}"


def shown(template: CompactTemplate, layout: PromptedLayout, situation: Situation = SITUATION) -> str:
    """The prompt as text, its scaffold checked and taken off."""
    text = template.raw(environment_prompt(template, layout, situation))
    head, tail = f"<|system|>|{CONTRACT}<|user|>", "<|act|>"
    assert text.startswith(head) and text.endswith(tail)
    return text[len(head) : -len(tail)]


def test_all_sections_in_order_and_the_call_last(template: CompactTemplate) -> None:
    assert shown(template, PromptedLayout()) == "\n\n".join([*SECTIONS.values(), CALLED])


@pytest.mark.parametrize(
    "name", [field.name for field in fields(PromptedLayout) if field.name != "max_tokens"]
)
def test_each_switch_takes_its_own_section_away(template: CompactTemplate, name: str) -> None:
    rest = [section for key, section in SECTIONS.items() if key != name]
    assert shown(template, replace(PromptedLayout(), **{name: False})) == "\n\n".join([*rest, CALLED])


def test_a_private_memory_is_no_part_of_it(template: CompactTemplate) -> None:
    memory = Message(role="system", name="memory", content="secret")
    with_memory = replace(SITUATION, messages=(*SITUATION.messages, memory))
    assert shown(template, PromptedLayout(), with_memory) == shown(template, PromptedLayout())


def test_a_tool_that_is_not_on_offer_has_no_schema(template: CompactTemplate) -> None:
    unknown = replace(SITUATION, call=ToolCall(name="drop"))
    assert "# schema\nno such tool\n" in shown(template, PromptedLayout(), unknown)


def test_too_long_loses_the_oldest_history_then_references_but_never_the_contract(
    template: CompactTemplate,
) -> None:
    lines = [f"user: {'la' * 20} {number}" for number in range(10, 40)]
    history = [Message(role="user", content=line.removeprefix("user: ")) for line in lines]
    references = [(EARLIER, f'{{"dada":{number}}}') for number in range(9)]
    long = replace(SITUATION, messages=(SITUATION.messages[0], *history), references=references)
    whole = len(environment_prompt(template, PromptedLayout(), long))
    least = len(environment_prompt(template, PromptedLayout(history=False, references=False), long))
    kept_lines = kept_references = 10**6
    for limit in range(whole, least + 40, -37):
        layout = PromptedLayout(max_tokens=limit)
        prompt = environment_prompt(template, layout, long)
        text = shown(template, layout, long)
        assert limit - 80 < len(prompt) <= limit  # no more than needed leaves
        assert text.endswith(CALLED) and SECTIONS["state"] in text
        kept = [line for line in lines if line in text]
        assert kept == lines[len(lines) - len(kept) :] and len(kept) <= kept_lines
        assert (LEFT_OUT in text) is (limit < whole)
        left = text.count(" -> ")
        assert left == len(references) or not kept  # history goes first
        assert left <= kept_references
        kept_lines, kept_references = len(kept), left
    assert (kept_lines, kept_references) < (1, len(references))
    with pytest.raises(EnvaceError, match="without any history, the limit is 50"):
        environment_prompt(template, PromptedLayout(max_tokens=50), long)


def test_what_fits_is_shown_whole_even_to_the_last_token(template: CompactTemplate) -> None:
    # The note that something is left out is longer than this history: nothing shorter may be preferred.
    short = replace(SITUATION, messages=(Message(role="user", content="a"),), references=())
    exact = PromptedLayout(max_tokens=len(environment_prompt(template, PromptedLayout(), short)))
    assert shown(template, exact, short) == shown(template, PromptedLayout(), short)


@pytest.mark.parametrize("family", ["compact", "hermes"])
def test_supervised_rows_stand_behind_the_prompts_of_a_roll_out(
    template: CompactTemplate, chatml: Any, scripted: Any, family: str
) -> None:
    chat = template if family == "compact" else chatml()
    system, *turns = SITUATION.messages
    both = Message(role="assistant", tool_calls=(EARLIER, CALL))
    talk = [
        system, *turns[:1], both, Message(role="tool", content='{"dada":7}'),
        Message(role="tool", content='{"bobo":3}'), Message(role="assistant", tool_calls=(CALL,)),
        Message(role="tool", content='{"bobo":2}'), Message(role="assistant", content="done"),
    ]  # fmt: skip
    task = Task(id="t", world="", template="", seed=0, tools=(GET,), messages=tuple(talk[:2]))
    layout = PromptedLayout()
    streams = environment_streams(chat, layout, talk, (GET,))

    whole = chat.render(talk, (GET,))
    acts: list[list[int]] = []
    for before, token, role in zip([0, *whole.roles], whole.ids, whole.roles, strict=False):
        if role == TokenRole.ACT:
            acts += [[]] if before != role else []
            acts[-1].append(token)
    act = iter(acts)
    answers = iter([s.ids[s.roles.index(TokenRole.ENV) :] for s in streams])
    environment = scripted(lambda prompt, sample: next(answers))
    who = RehearsalResponder(environment, chat, Sampling(), layout)
    (episode,) = answered_episodes(
        scripted(lambda prompt, sample: next(act)), chat, [(task, ())], Sampling(), who
    )
    assert episode.answer == "done" and episode.responses == ('{"dada":7}', '{"bobo":3}', '{"bobo":2}')
    assert [row.stream for row in episode.forks] == streams
    untrained = [m.model_copy(update={"trainable": m.content != '{"bobo":3}'}) for m in talk]
    assert environment_streams(chat, layout, untrained, (GET,)) == [streams[0], streams[2]]


def test_predictions_in_this_layout(template: CompactTemplate, scripted: Any) -> None:
    call = next(held_out_calls([pose("store", "order", 1, "held_out")], 0))
    texts = iter([[*template.encode(call.actual), END], template.encode("{")])
    engine = scripted(lambda prompt, sample: next(texts))
    whole, broken = predict(engine, template, [call, call], PromptedLayout())
    assert (whole.text, whole.terminated) == (call.actual, True)
    assert not broken.terminated
    assert template.raw(engine.seen[0]).endswith(f"# call\n{call.call.text()}<|act|>")
