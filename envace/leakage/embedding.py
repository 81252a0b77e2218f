"""Similar meaning: texts whose embeddings lie close together, by any sentence encoder in a local folder.

The only method that can see a paraphrase or a translation, and as far as the encoder does. What is
similar is no proof of a leak, so its matches are hints to be looked at.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envace.errors import EnvaceError
from envace.leakage.material import Chunk, Finder, Hit, Items, joined

BATCH = 64
"""Texts encoded at once."""
MAX_TOKENS = 512
"""Tokens of a text that the encoder is shown."""


class Embeddings(Finder):
    """Finds items and training texts whose embeddings have a cosine of at least `threshold`.

    Args:
        items: All items.
        encoder: Folder of a model that `transformers.AutoModel` loads, with its tokenizer. Its last
            hidden states are averaged over the tokens, as most sentence encoders are trained for.
        threshold: Cosine, inclusive.

    Raises:
        EnvaceError: There is no such model.
    """

    def __init__(self, items: Items, encoder: str | Path, threshold: float = 0.9) -> None:
        from transformers import AutoModel, AutoTokenizer

        self._threshold = threshold
        if not Path(encoder).is_dir():
            raise EnvaceError(f"{encoder}: no such folder", "give the folder of a sentence encoder")
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(encoder)
            self._model: Any = AutoModel.from_pretrained(encoder).eval()
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise EnvaceError(f"{encoder}: no encoder: {reason}", "give a transformers model") from error
        self._encoder = Path(encoder).name
        self._items = [item for item, length in enumerate(items.lengths) if length]
        self._vectors = self._encode([items.records[item].text for item in self._items])

    def feed(self, chunk: Chunk) -> list[Hit]:
        texts = [text for text, length in enumerate(chunk.array.lengths.tolist()) if length]
        cosines = self._encode([joined(chunk.texts[text]) for text in texts]) @ self._vectors.T
        return [
            Hit(self._items[item], chunk.owners[texts[text]], min(1.0, float(cosines[text, item])))
            for text, item in np.argwhere(cosines >= self._threshold).tolist()
        ]

    def notes(self) -> list[str]:
        return [
            f"paraphrases and translations: only those that {self._encoder} puts at a cosine of at least "
            f"{self._threshold:g}, by the first {MAX_TOKENS} tokens of whole texts"
        ]

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors, one row a text."""
        import torch

        rows = []
        for begin in range(0, len(texts), BATCH):
            batch = self._tokenizer(
                list(texts[begin : begin + BATCH]),
                padding=True,
                truncation=True,
                max_length=MAX_TOKENS,
                return_tensors="pt",
            )
            with torch.inference_mode():
                states = self._model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None]
            means = (states * mask).sum(1) / mask.sum(1)
            rows.append(torch.nn.functional.normalize(means, dim=-1).float().numpy())
        width = self._model.config.hidden_size
        return np.concatenate(rows) if rows else np.zeros((0, width), np.float32)
