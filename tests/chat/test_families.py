"""A model folder says how it talks."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envace.chat import CompactTemplate, HermesTemplate, SeamlessTemplate, load_template
from envace.errors import EnvaceError


def test_families_are_told_by_their_markers_and_only_compact_is_seamless(
    tiny: Any, chatml: Callable[..., HermesTemplate], tmp_path: Path
) -> None:
    compact, hermes = load_template(tiny.folder), load_template(saved(chatml(), tmp_path))
    assert isinstance(compact, CompactTemplate) and isinstance(compact, SeamlessTemplate)
    assert isinstance(hermes, HermesTemplate) and not isinstance(hermes, SeamlessTemplate)


def test_the_configuration_has_the_last_word(chatml: Callable[..., HermesTemplate], tmp_path: Path) -> None:
    template = load_template(saved(chatml(), tmp_path, chat_options={"history": "qwen", "thinking": "none"}))
    assert isinstance(template, HermesTemplate) and template.history == "qwen"
    assert isinstance(load_template(saved(chatml(), tmp_path, chat_family="compact")), CompactTemplate)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"chat_family": "tongues"}, "no chat family 'tongues'.*one of compact, hermes"),
        ({"chat_options": {"thoughts": 1}}, "unexpected keyword argument 'thoughts'"),
        ({"chat_options": {"history": "long"}}, "history 'long'"),
    ],
)
def test_a_wrong_configuration_is_one_line(
    chatml: Callable[..., HermesTemplate], tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(EnvaceError, match=message):
        load_template(saved(chatml(), tmp_path, **config))


def test_a_folder_of_no_family_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(EnvaceError, match="no such file"):
        load_template(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"added_tokens": [{"content": "<s>"}]}')
    with pytest.raises(EnvaceError, match="no known chat markers"):
        load_template(tmp_path)


def saved(template: HermesTemplate, folder: Path, **config: Any) -> Path:
    (folder / "tokenizer.json").write_text(template.tokenizer.to_str())
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
