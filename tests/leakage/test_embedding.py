"""An encoder sees what n-grams cannot; it is loaded from a folder, and its matches are hints."""

import pytest
from leakage_samples import item, said

from envace.errors import EnvaceError
from envace.leakage import check, default_methods

QUESTION = "which of my two savings accounts paid more interest last year"
SHUFFLED = "interest last year which accounts of my two paid more savings"
OTHER = "please water the plants behind the shed"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> str:
    """A small random encoder over whole words; the mean over tokens makes it blind to their order."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", *dict.fromkeys(f"{QUESTION} {OTHER}".split())]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    config = BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=512, initializer_range=1.0,
    )  # fmt: skip
    model = BertModel(config)
    model.embeddings.position_embeddings.weight.data.zero_()
    folder = tmp_path_factory.mktemp("encoder")
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(
        folder
    )
    return str(folder)


def test_other_words_order_is_seen_and_only_reported(encoder) -> None:
    train = [said(OTHER, id_="other"), said(SHUFFLED, id_="shuffled"), said("")]
    result, leaks = check(train, [item(QUESTION), item("…", "silent")], default_methods(encoder))
    assert leaks == [None, None, None]
    (match,) = result.matches
    assert (match.method, match.kind, match.train_id, match.item_id) == ("embedding", "hint", "shuffled", "q")
    assert match.score == pytest.approx(1.0, abs=1e-5)
    assert (match.item_text, match.train_text) == (QUESTION, SHUFFLED)
    assert not any(note.startswith("not checked: paraphrases") for note in result.notes)
    assert any(note.startswith("paraphrases and translations: only those that") for note in result.notes)


def test_without_an_encoder_the_same_is_not_found() -> None:
    assert check([said(SHUFFLED)], [item(QUESTION)])[0].matches == []


def test_a_folder_without_an_encoder_is_one_line(tmp_path) -> None:
    for path, reason in ((tmp_path / "gone", "no such folder"), (tmp_path, "no encoder")):
        with pytest.raises(EnvaceError, match=reason) as caught:
            check([], [item(QUESTION)], {"embedding": {"encoder": path}})
        assert "\n" not in str(caught.value)
