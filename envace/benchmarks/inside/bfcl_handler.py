"""The model under test as BFCL sees it: the official OpenAI handler behind a guard.

Import this before anything else of `bfcl_eval`: it stands in for the shipped model registry.
"""

import os
import sys
import threading
import types
from dataclasses import dataclass
from typing import Any

import allowlist
import bfcl_gold

MODEL = "envace"
"""Registered name. Other characters than letters, digits and `- . / :` make every answer pass."""

TOO_LONG = "context_length_exceeded"
"""OpenAI's error code for a conversation that does not fit."""
UNENCODABLE = "text that no encoding has"
"""Half of a surrogate pair, which cannot be sent on."""
OWN_FAILURES = (TOO_LONG, UNENCODABLE)
"""Errors that are the model's own: the entry is wrong, and the run goes on."""


@dataclass
class ModelConfig:
    """The fields of `bfcl_eval.constants.model_config.ModelConfig`."""

    model_name: str
    display_name: str
    url: str
    org: str
    license: str
    model_handler: Any
    input_price: float | None = None
    output_price: float | None = None
    is_fc_model: bool = True
    underscore_to_dot: bool = False


# The shipped registry imports every vendor's SDK; this one holds our single entry.
registry = types.ModuleType("bfcl_eval.constants.model_config")
registry.ModelConfig = ModelConfig  # type: ignore[attr-defined]
registry.MODEL_CONFIG_MAPPING = {}  # type: ignore[attr-defined]
sys.modules["bfcl_eval.constants.model_config"] = registry

import openai  # noqa: E402
from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler  # noqa: E402


class EndpointFailed(BaseException):
    """The endpoint gave no answer. Not an `Exception`: the harness stores those as answers."""


def function_names(entry: dict[str, Any]) -> set[str]:
    """Names of an entry's functions as models see them."""
    return {bfcl_gold.wire_name(f["name"]) for f in bfcl_gold.all_functions(entry)}


class Handler(OpenAICompletionsHandler):  # type: ignore[misc]
    """The official OpenAI handler, with the guard before execution and failures that stay failures."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.local = threading.local()

    def inference(self, test_entry: dict, *args: Any) -> tuple[Any, dict]:
        """Answer one entry; adds steps and rehearsal tokens to its metadata."""
        self.local.names, self.local.steps, self.local.rehearsal = function_names(test_entry), 0, 0
        try:
            answer, metadata = super().inference(test_entry, *args)
        except UnicodeError as error:
            raise ValueError(UNENCODABLE) from error
        return answer, metadata | {"steps": self.local.steps, "rehearsal_tokens": self.local.rehearsal}

    def write(self, result: Any, result_dir: Any, update_mode: bool = False) -> None:
        """Add an answer to its file. With ids given, the harness would write the whole file anew for each."""
        super().write(result, result_dir, update_mode=False)

    def generate_with_backoff(self, **kwargs: Any) -> Any:
        """One request. Only a context that is too long is the model's own failure."""
        kwargs |= {"model": os.environ["ENVACE_MODEL"], "seed": int(os.environ["ENVACE_SEED"])}
        try:
            return super().generate_with_backoff(**kwargs)
        except openai.BadRequestError as error:
            if error.code == TOO_LONG:
                raise ValueError(TOO_LONG) from error
            raise EndpointFailed(f"refused the request: {error}") from error
        except openai.OpenAIError as error:
            raise EndpointFailed(f"{type(error).__name__}: {error}") from error

    def _parse_query_response_FC(self, api_response: Any) -> dict:  # noqa: N802
        data = super()._parse_query_response_FC(api_response)
        # Some servers send `tool_calls: []` beside the text, which the official parser would drop.
        data["model_responses"] = data["model_responses"] or api_response.choices[0].message.content or ""
        details = getattr(api_response.usage, "completion_tokens_details", None)
        self.local.rehearsal += getattr(details, "rehearsal_tokens", None) or 0
        self.local.steps += 1
        return data

    def decode_execute(self, result: Any, has_tool_call_tag: bool) -> list[str]:
        """Calls as text for `eval()`; raises when one is not on the allow-list, which ends the turn."""
        names = getattr(self.local, "names", None)
        reason = None if names is None else allowlist.step_refusal(result, names, evaluated=True)
        if reason:
            raise ValueError(f"refused: {reason}")
        return super().decode_execute(result, has_tool_call_tag)


registry.MODEL_CONFIG_MAPPING[MODEL] = ModelConfig(
    MODEL, MODEL, "", "", "", Handler, is_fc_model=True, underscore_to_dot=True
)
