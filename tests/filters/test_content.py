"""Rules on what was said: responses, loops, languages, secrets, personal data, chat marks."""

import json
import os
from pathlib import Path

import pytest
from filter_samples import exchange, talk

from envace.errors import EnvaceError
from envace.filters.language import language
from envace.filters.private import PERSONAL, SECRETS, personal, secrets
from envace.filters.repetition import repeated, repetition
from envace.filters.results import results
from envace.filters.structure import markup
from envace.trajectory import Message, Tool, Trajectory
from envace.worlds import WORLDS

DECLARED = Tool(
    name="look",
    returns={"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]},
)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ('{"color":"blue"}', None),
        ('{"error":"night"}', None),
        ('{"color":3}', "message 2: response of look: color: 3 is not of type 'string'"),
        ("{}", "message 2: response of look: 'color' is a required property"),
        ("blue", "message 2: response of look: not JSON, which its schema describes"),
    ],
)
def test_a_response_fits_the_schema_that_its_tool_declares(response, reason) -> None:
    assert results()(exchange(({}, response), tool=DECLARED)) == reason
    assert results()(exchange(({}, response))) is None


def test_responses_are_held_against_the_tool_that_was_called() -> None:
    other = Tool(name="hear")
    two = exchange(({}, '{"color":"blue"}'), tool=DECLARED)
    call = two.messages[1]
    both = call.model_copy(
        update={"tool_calls": (*call.tool_calls, call.tool_calls[0].model_copy(update={"name": "hear"}))}
    )
    messages = (two.messages[0], both, two.messages[2], Message(role="tool", content="a bird"))
    assert results()(two.model_copy(update={"tools": (DECLARED, other), "messages": messages})) is None


def test_every_response_of_the_own_worlds_is_declared() -> None:
    from envace.synthesis.worlds import Mixture, synthesize

    mixture = Mixture(
        demonstrations=80, glimpses=20, drills=80, memories=10, commits=10,
        wrong_call_rate=0.5, broken_rate=0.3, noted_rate=0.3, format_only=("courier",), worlds=tuple(WORLDS),
    )  # fmt: skip
    made = list(synthesize(mixture, 1))
    assert {t.world for t in made} == set(WORLDS)
    rule = results()
    assert [reason for t in made if (reason := rule(t))] == []


def test_repeated_by_hand() -> None:
    # a b c a b c a b: 5 four-grams, abca bcab cabc, the first two of them twice.
    share, count = repeated("a b c a b c a b")
    assert (share, count) == (pytest.approx(2 / 5), 5)
    assert repeated("one two") == (0.0, 0)


def test_loops_of_calls_are_refused_and_polling_is_not() -> None:
    same = ({"at": "sky"}, "{}")
    assert repetition()(exchange(*[same] * 3)) is None
    assert repetition()(exchange(*[same] * 4)) == (
        "look called 4 times in a row with the same response, limit 3"
    )
    assert repetition()(exchange(same, same, ({"at": "sea"}, "{}"), same, same)) is None
    assert repetition()(exchange(*[({"job": 1}, f'{{"done":{n}}}') for n in range(9)])) is None


def test_loops_of_words_are_refused_in_any_language() -> None:
    rule = repetition()
    assert rule(talk("go", "I will look into it. " * 20)) == "message 1: 95% repeated, limit 50%"
    assert "repeated" in str(rule(talk("go", "我会马上查一下。" * 20)))
    assert rule(talk("I will look into it. " * 20)) is None  # a user may
    assert rule(talk("go", " ".join(f"item {n} costs {n * n} euros" for n in range(40)))) is None


GERMAN = "Könnten Sie mir bitte sagen, wann der nächste Zug nach Lund fährt und was die Fahrkarte kostet?"
ENGLISH = "Could you please tell me when the next train to Lund leaves and what the ticket costs?"
CHINESE = (
    "请问下一班去隆德的火车几点开，车票多少钱？如果能买到靠窗的座位就更好了，非常感谢你的帮助，祝你工作顺利。"
)


def test_other_languages_are_refused() -> None:
    rule = language()
    assert rule(talk(ENGLISH)) is None
    assert rule(talk(CHINESE)) is None
    assert str(rule(talk(GERMAN, "Gerne, einen Augenblick bitte."))).startswith("language de (")
    assert language(allowed=["de"])(talk(GERMAN)) is None
    assert rule(talk("Wann fährt er?")) is None  # too short to tell
    with pytest.raises(EnvaceError, match="unknown language klingon"):
        language(allowed=["klingon"])


FOUND = {
    "a private key": "-----BEGIN RSA PRIVATE KEY-----",
    "an AWS key": "AKIA" + "ABCDEFGH12345678",
    "a GitHub token": "ghp_" + "a1B2" * 9,
    "a Slack token": "xoxb-" + "1234567890-abcdefghij",
    "a Google key": "AIza" + "Sy0123456789abcdefghijklmnopqrstuvw",
    "a Stripe key": "sk_live_" + "a1" * 12,
    "an API key": "sk-proj-" + "a1B2" * 10,
    "a hub token": "hf_" + "aBcD" * 9,
    "a JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP",
    "a password in a URL": "postgres://admin:hunter2@db.internal/main",
    "an e-mail address": "ada.lovelace@analytical.org",
    "a payment card": "4111 1111 1111 1111",
    "a bank account": "DE89 3704 0044 0532 0130 00",
    "a Chinese identity number": "11010519491231002X",
    "a US social security number": "219-09-9999",
    "a phone number": "+46 70 174 06 05",
    "a public IP address": "8.8.8.8",
}
NEAR = (
    "order 4111 1111 1111 1112", "DE88 3704 0044 0532 0130 00", "110105194912310021", "000-12-3456",
    "192.168.0.1", "999.1.1.1", "version 1.2.3.4.5", "ask @ada", "a b@c", "2025-06-21 11:20:00",
    "1692345678901", "task-force-of-many-people-and-more-people", "sk-short",
    "https://example.org:8080/a@b", "eyJhbGciOi",
    "ada@example.com",
)  # fmt: skip


def test_every_pattern_is_tried() -> None:
    assert set(FOUND) == set(SECRETS) | set(PERSONAL)


@pytest.mark.parametrize("name", FOUND)
def test_what_must_not_be_trained_on_is_named_but_never_quoted(name) -> None:
    value = FOUND[name]
    rule = secrets() if name in SECRETS else personal()
    assert rule(talk(f"it is {value}, thanks")) == f"message 0: {name} in the user turn"
    assert rule(exchange(({"note": value}, "{}"))) == f"message 1: {name} in the assistant turn"
    assert rule(exchange(({}, json.dumps({"value": value})))) == f"message 2: {name} in the tool turn"
    other = personal() if name in SECRETS else secrets()
    assert name == "a password in a URL" or other(talk(f"it is {value}, thanks")) is None


@pytest.mark.parametrize("text", NEAR)
def test_what_only_looks_like_it_passes(text) -> None:
    assert secrets()(talk(text)) is None
    assert personal()(talk(text)) is None


def test_kinds_can_be_let_through() -> None:
    made_up = talk("write to ada@lab.org or call +46 70 174 06 05")
    assert personal(allow=("an e-mail address", "a phone number"))(made_up) is None


@pytest.mark.parametrize("mark", ["<tool_response>", "</tool_call>", "<|im_start|>", "[INST]"])
def test_marks_of_a_chat_template_in_an_answer(mark) -> None:
    assert markup(talk("a", f"well {mark} then")) == f"message 1: {mark} in the assistant text"
    assert markup(talk(f"what does {mark} mean", "a mark")) is None
    assert markup(talk("a", "x <| y |> z, a[INSTALL]")) is None


def test_published_data_passes_the_rules_that_run_by_default() -> None:
    from envace.filters import make_rules
    from envace.leakage.sources import FORMATS, Origin, raw_records

    shared = Path(os.environ.get("ENVACE_SHARED", Path(__file__).parents[2] / "../shared")) / "data"
    files = {"finmcp": shared / "finmcp_demo_infer.json", "cm2": shared / "cm2_checklist_sample.json"}
    absent = [file.name for file in files.values() if not file.is_file()]
    if absent:
        pytest.skip(f"data/{absent[0]} is absent")
    records: list[Trajectory] = [
        FORMATS[name](raw.value, Origin(name, str(raw.line), "")).record
        for name, file in files.items()
        for raw in raw_records(file)
    ]
    rules = make_rules()
    assert len(records) == 7
    assert {name: reason for t in records for name, rule in rules.items() if (reason := rule(t))} == {}
