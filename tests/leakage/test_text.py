"""Tokens ignore what a re-typed leak changes, and still know their place in the source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.leakage.text import tokenize, word_count, words
from envace.leakage.tokens import TokenArray


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("Don't PANIC,\n\t it's 4.5!", ("don", "t", "panic", "it", "s", "4", "5")),
        ("get_item(order_id)", ("get", "item", "order", "id")),
        ("Straße ﬁne Ａ１", ("strasse", "fine", "a1")),
        ("cafe\u0301 CAFÉ", ("café", "café")),
        ("in\u00advisi\u200bble", ("invisible",)),
        ("最近市场，how are you？", ("最", "近", "市", "场", "how", "are", "you")),
        ("カ\u3099 ガ ｶﾞ", ("ガ", "ガ", "ガ")),
        ("½", ("1", "2")),
        ("—…!?", ()),
        ("", ()),
    ],
)
def test_tokens(source, tokens) -> None:
    assert tokenize(source).tokens == tokens


def test_cut_returns_the_source_as_it_was_written() -> None:
    text = tokenize("  Say: «HELLO,\n World»!")
    assert text.cut(1, 3) == "HELLO,\n World"
    assert text.cut(0, 1) == "Say"
    assert text.cut(2, 2) == ""


@given(st.text(max_size=60))
def test_every_token_comes_from_its_span(source) -> None:
    text = tokenize(source)
    assert len(text.tokens) == len(text.spans)
    for token, (start, end) in zip(text.tokens, text.spans, strict=True):
        assert 0 <= start < end <= len(source)
        assert token in tokenize(source[start:end]).tokens
    assert all(left[0] <= right[0] for left, right in zip(text.spans, text.spans[1:], strict=False))


@given(st.text(alphabet=st.characters(max_codepoint=0x24F), max_size=40))
def test_white_space_and_upper_case_do_not_count(source) -> None:
    spread = source.replace(" ", " \n\t ")
    assert tokenize(spread).tokens == tokenize(source).tokens
    assert tokenize(tokenize(source).source.casefold()).tokens == tokenize(source).tokens


@given(st.text(max_size=60) | st.text(alphabet="aZ é_½ｶﾞ天气\u0301\u200b1.", max_size=20))
def test_the_fast_way_gives_the_same_tokens(source) -> None:
    assert words(source) == list(tokenize(source).tokens)
    tokens = tokenize(source).tokens
    apart = TokenArray([(token,) for token in tokens])
    together = TokenArray([(source,)])
    assert together.lengths.tolist() == [len(tokens)]
    assert together.grams(1)[:-1].tolist() == apart.runs(apart.starts, 1).tolist()


def test_two_characters_are_about_a_word() -> None:
    assert word_count(words("查询天气 in Lund")) == 4.0
