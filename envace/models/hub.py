"""A pretrained policy of the Hugging Face hub, or of a local folder in its format."""

import shutil
from pathlib import Path
from typing import Any

from envace.errors import EnvaceError
from envace.models import chatml
from envace.models.facts import facts
from envace.params import HubModel

FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja")
"""Configuration, weights, tokenizer; other frameworks' weights stay where they are."""


def hub(params: HubModel, seed: int, folder: Path) -> dict[str, Any]:
    """Write the model folder of a published policy; see `Source`."""
    source = Path(params.name)
    if not source.is_dir():
        source = fetch(params)
    for pattern in FILES:
        for path in source.glob(pattern):
            shutil.copy(path, folder / path.name)
    for needed, pattern in (("configuration", "config.json"), ("weights", "*.safetensors")):
        if not any(folder.glob(pattern)):
            raise EnvaceError(
                f"{params.name}: no {needed} ({pattern})", "the folder must be a transformers model"
            )
    chatml.complete(folder)
    return facts(folder) | ({} if source == Path(params.name) else {"revision": source.name})


def fetch(params: HubModel) -> Path:
    """The hub's snapshot in the local cache, downloaded where it is not there yet.

    Raises:
        EnvaceError: The hub cannot be reached, or has no such model.
    """
    import httpx
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(params.name, revision=params.revision, allow_patterns=list(FILES)))
    except (OSError, ValueError, httpx.HTTPError) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise EnvaceError(
            f"{params.name}: not fetched from the hub: {reason}",
            "give `model.name` a local folder, or see that the hub can be reached and HF_HUB_OFFLINE is 0",
        ) from error
