"""Near duplicates are those whose 5-gram sets overlap as far as said, found by slow computation too."""

import random

from filter_samples import exchange, run, talk
from hypothesis import given
from hypothesis import strategies as st

from envace.filters import make_rules
from envace.filters.near_duplicates import near_duplicates

WORDS = [f"w{n}" for n in range(60)]


def test_by_hand() -> None:
    rule = near_duplicates(threshold=0.8)
    # 62 tokens with "ok" and a last word: 58 shingles; one word changed in the middle takes five.
    first = talk(" ".join([*WORDS, "end"]), id_="first")
    changed = talk(" ".join([*WORDS[:30], "x", *WORDS[31:], "end"]), id_="second")
    assert rule(first) is None
    assert rule(changed) == "84% the same as first"  # 53 of 63
    assert rule(talk("w1 w2 w3 w4 and nothing else")) is None
    assert near_duplicates(threshold=0.9)(changed) is None


def test_calls_count_and_memories_do_not() -> None:
    pair = ({"at": " ".join(WORDS[:20])}, "{}")
    other = ({"at": " ".join(WORDS[20:40])}, "{}")
    rule = near_duplicates()
    assert rule(exchange(pair)) is None
    assert rule(exchange(other)) is None
    assert "same as" in str(rule(exchange(pair)))


def test_short_conversations_pass() -> None:
    rule = near_duplicates()
    assert rule(talk("hi", "ok")) is None
    assert rule(talk("hi", "ok")) is None


@given(st.integers(0, 10_000))
def test_equals_the_slow_comparison_with_all_that_was_kept(seed) -> None:
    rng = random.Random(seed)
    texts = [" ".join(rng.choices("abc", k=rng.randint(6, 12))) for _ in range(8)]
    kept, _, _ = run(
        [talk(text, id_=str(n)) for n, text in enumerate(texts)], make_rules({"near_duplicates": None})
    )

    def shingles(text: str) -> set[tuple[str, ...]]:
        tokens = [*text.split(), "ok"]
        return {tuple(tokens[at : at + 5]) for at in range(len(tokens) - 4)}

    expected: list[str] = []
    for text in texts:
        ours = shingles(text)
        if all(len(ours & shingles(t)) / len(ours | shingles(t)) < 0.9 for t in expected):
            expected.append(text)
    assert [t.messages[0].content for t in kept] == expected
