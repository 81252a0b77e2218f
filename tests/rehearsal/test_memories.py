"""The memories that rules and the policy write, word for word."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.rehearsal.base import Conversation, Policy, Settings
from envace.rehearsal.dictated import INSTRUCTION
from envace.rehearsal.draft import Draft, note
from envace.rehearsal.memories import MEMORIES, remember
from envace.rehearsal.plans import plans_text
from envace.rehearsal.rule import keep_within
from envace.rehearsal.trace import Branch, Imagined
from envace.trajectory import Message, Outcome, Tool, ToolCall

TOOLS = (Tool(name="find"), Tool(name="order", outcome=Outcome(field="total")))
FIND, OTHER = (ToolCall(name="find", arguments={"title": title}) for title in "xy")
ORDER = ToolCall(name="order", arguments={"id": "q1"})
STATE = Conversation((Message(role="user", content="order x"),), TOOLS)


def branch(*steps: tuple[ToolCall, str | None], answer: str | None = None) -> Branch:
    imagined = tuple(Imagined(call=call, response=response) for call, response in steps)
    return Branch(steps=imagined, answer=answer)


FAILED = branch((OTHER, '{"error":"title"}'))
BOUGHT = [
    branch((FIND, '{"id":"q1"}'), (ORDER, '{"total":3}'), answer="done"),
    branch((FIND, '{"id":"q2"}'), (ORDER, '{"total":3}'), answer="bought"),
    branch((FIND, '{"id":"q1"}'), (ORDER, '{"total":3}'), answer="done"),
]


def drafted(*branches: Branch) -> Draft:
    return Draft(STATE, list(branches))


def test_plans_show_responses_agreement_failures_and_answers() -> None:
    assert plans_text([FAILED, *BOUGHT, FAILED, Branch(sampled="{")], TOOLS).split("\n") == [
        "plan of 3 in 6 rehearsals:",
        f'{FIND.text()} {{"id":"q1"}} [2 of 3]',
        f'{ORDER.text()} {{"total":3}}',
        "answer: done",
        "plan of 2 in 6 rehearsals:",
        f'{OTHER.text()} {{"error":"title"}} [failure]',
    ]


def test_plans_without_failure_come_first_then_the_frequent_then_the_earlier() -> None:
    cut = branch((FIND, '{"id":"q1"}'), (ORDER, None))
    alone, twice = branch((ORDER, '{"total":3}')), branch((FIND, '{"id":"q1"}'))
    answered = branch(answer="nothing to do")
    assert plans_text([cut, cut, cut, alone, answered, twice, twice], TOOLS).split("\n") == [
        "plan of 2 in 7 rehearsals:",
        f'{FIND.text()} {{"id":"q1"}}',
        "plan of 1 in 7 rehearsals:",
        f'{ORDER.text()} {{"total":3}}',
        "plan of 1 in 7 rehearsals:",
        "answer: nothing to do",
        "plan of 3 in 7 rehearsals:",
        f'{FIND.text()} {{"id":"q1"}}',
        f"{ORDER.text()} [no response]",
    ]


def test_an_outcome_that_is_missing_is_a_failure_and_no_plan_is_no_text() -> None:
    assert plans_text([branch((ORDER, "{}"))], TOOLS).endswith(f"{ORDER.text()} {{}} [failure]")
    assert plans_text([Branch(sampled="{"), Branch()], TOOLS) == ""


def test_the_ranked_memory_forgets_branches_with_an_unanswered_call(template: Any) -> None:
    cut = branch((FIND, '{"id":"q1"}'), (ORDER, None))
    draft = drafted(cut, FAILED, BOUGHT[0])
    remember(Policy(None, template), [draft], Settings(), 0)  # type: ignore[arg-type]
    assert draft.memory.text.split("\n") == [
        f'{FIND.text()} {{"id":"q1"}}',
        f'{ORDER.text()} {{"total":3}}',
        f'{OTHER.text()} {{"error":"title"}}',
    ]
    assert (draft.memory.best, draft.memory.tokens) == (FIND, 0)


@pytest.mark.parametrize("name", MEMORIES)
def test_without_anything_rehearsed_there_is_no_memory(template: Any, scripted: Any, name: str) -> None:
    engine = scripted(lambda prompt, sample: template.encode("never asked"))
    draft = drafted(Branch(sampled="{"))
    remember(Policy(engine, template), [draft], Settings(memory=name), 0)
    assert (draft.memory.text, draft.memory.notes, draft.memory.best) == ("", (), None)
    assert engine.generated_tokens == 0


@given(text=st.text("ab \n", max_size=40), limit=st.integers(0, 20))
def test_a_cut_keeps_as_many_whole_lines_from_the_top_as_fit(template: Any, text: str, limit: int) -> None:
    kept = keep_within(template, text, limit)
    lines = text.split("\n")
    prefixes = ["\n".join(lines[:count]) for count in range(len(lines) + 1)]
    fitting = [prefix for prefix in prefixes if len(template.encode(prefix)) <= limit]
    assert kept == max(fitting, key=len)


@pytest.mark.parametrize("name", ["ranked", "plans"])
def test_a_rule_stays_within_its_budget_and_loses_the_last_lines(template: Any, name: str) -> None:
    policy: Any = Policy(None, template)  # type: ignore[arg-type]
    whole = drafted(*BOUGHT, FAILED)
    remember(policy, [whole], Settings(memory=name), 0)
    lines = whole.memory.text.split("\n")
    room = len(template.encode("\n".join(lines[:2])))
    for limit, kept in ((room, 2), (room - 1, 1), (1, 0)):
        draft = drafted(*BOUGHT, FAILED)
        remember(policy, [draft], Settings(memory=name, memory_tokens=limit), 0)
        assert draft.memory.text == "\n".join(lines[:kept])
        assert draft.memory.best == whole.memory.best


def test_the_policy_writes_from_the_plans_and_within_the_budget(template: Any, scripted: Any) -> None:
    words = [*template.encode("order q1\nit costs 3"), *template.end_ids]
    engine = scripted(lambda prompt, sample: words)
    draft, silent = drafted(FAILED, *BOUGHT), drafted(Branch(sampled="{"))
    settings = Settings(memory="policy", memory_tokens=len(words))
    remember(Policy(engine, template), [silent, draft], settings, 0)
    shown = note(f"{plans_text(draft.branches, TOOLS)}\n{INSTRUCTION}")
    assert engine.seen == [template.render((*STATE.messages, shown), TOOLS).ids]
    assert draft.memory.text == "order q1\nit costs 3"
    assert (draft.memory.tokens, draft.tokens["memory"]) == (len(words), len(words))
    assert draft.memory.best == FIND  # the rule's, whoever writes
    # Out of tokens, the words are cut where they stand.
    draft = drafted(*BOUGHT)
    remember(Policy(engine, template), [draft], Settings(memory="policy", memory_tokens=4), 0)
    assert engine.samplings[-1].max_new_tokens == 4
    assert draft.memory.text == template.decode(words[:4]).strip()
