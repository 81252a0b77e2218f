"""The policy from scratch: reproducible, saved exactly, and able to copy before any training."""

from pathlib import Path
from typing import Any

import torch

from envace.chat import CompactTemplate
from envace.models.build import build, copy_drills, load, save


def test_the_same_seed_builds_the_same_policy(tiny: Any, tmp_path: Path) -> None:
    corpus = ["get_item(item)", '{"name":"order","arguments":{"id":"h1"}}', "bobo 12"]
    first, size = build(corpus, 300, 64, 2, 128, 3, tmp_path / "a")
    second, _ = build(corpus, 300, 64, 2, 128, 3, tmp_path / "b")
    other, _ = build(corpus, 300, 64, 2, 128, 4, tmp_path / "c")
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)
    assert (tmp_path / "a/tokenizer.json").read_bytes() == (tmp_path / "b/tokenizer.json").read_bytes()
    assert first.lm_head.weight is first.model.embed_tokens.weight
    assert size == CompactTemplate(tmp_path / "a").vocabulary <= 300
    assert first.config.vocab_size % 64 == 0 and first.config.vocab_size >= size


def test_saved_and_loaded_policies_agree_to_the_bit(tiny: Any, tmp_path: Path) -> None:
    save(tiny.model, tiny.folder, tmp_path / "saved")
    loaded = load(tmp_path / "saved")
    ids = torch.randint(7, tiny.vocabulary, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(loaded(input_ids=ids).logits, tiny.model(input_ids=ids).logits)
    assert CompactTemplate(tmp_path / "saved").encode("order 2 bobo") == tiny.template.encode("order 2 bobo")


def copied(model: Any, vocabulary: int) -> float:
    """How often the argmax copies a random sequence that is shown a second time."""
    once = torch.randint(7, vocabulary, (20, 16), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        guesses = model(input_ids=torch.cat([once, once], 1)).logits[:, 16:-1].argmax(-1)
    return float((guesses == once[:, 1:]).float().mean())


def test_induction_heads_copy_before_training_and_better_after_drills(tiny: Any) -> None:
    before = copied(tiny.model, tiny.vocabulary)
    assert before > 0.15  # chance is 0.002
    model = tiny.fresh()
    copy_drills(model, tiny.vocabulary, steps=25, seed=0)
    assert copied(model, tiny.vocabulary) > before + 0.1
