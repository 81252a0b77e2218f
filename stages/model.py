"""model: tokenizer and a small Qwen3 from scratch that can copy → models/base."""

from pathlib import Path

from envace.files import atomic_folder, write_json
from envace.params import Params
from stages.base import METRICS, run, use_torch


def main(params: Params) -> None:
    """Build the base policy."""
    from envace.models.build import build, copy_drills
    from envace.synthesis.corpus import tokenizer_corpus

    use_torch(params)
    with atomic_folder(Path("models/base")) as folder:
        model, vocabulary = build(
            tokenizer_corpus(params.seed),
            params.model.vocabulary,
            params.model.hidden,
            params.model.layers,
            params.model.context,
            params.seed,
            folder,
        )
        copied = copy_drills(model, vocabulary, params.model.copy_steps, params.seed)
        model.save_pretrained(folder)
    count = sum(parameter.numel() for parameter in model.parameters())
    write_json(METRICS / "model.json", {"parameters": count, "vocabulary": vocabulary, "copy": copied})


if __name__ == "__main__":
    run(main)
