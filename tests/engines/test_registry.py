"""Engines by name."""

from importlib.util import find_spec
from typing import Any

import pytest

from envace.engines import Sampling, engine
from envace.errors import EnvaceError


def test_the_in_process_engine_by_name_with_its_options(tiny: Any) -> None:
    chosen = engine("hf", tiny.model, tiny.vocabulary, kept_tokens=5)
    chosen.generate([[1, 30, 31]], Sampling(0.0, 9, continued=True))
    assert chosen.store.held == 5


def test_an_unknown_name_gets_the_choice(tiny: Any) -> None:
    with pytest.raises(EnvaceError, match=r"no engine 'sglang'.*hf, vllm"):
        engine("sglang", tiny.model, tiny.vocabulary)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed here")
def test_a_missing_vllm_is_one_line_with_the_mend(tiny: Any) -> None:
    with pytest.raises(EnvaceError, match=r"not installed.*vllm_env\.sh"):
        engine("vllm", tiny.model, tiny.vocabulary)
