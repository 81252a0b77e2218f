"""What a model may have said before the BFCL checker sees it.

The multi-turn checker joins a call into text and hands the text to `eval()`; its own list of forbidden
names can be got round. So a call passes only if that very text is one call of a function of the entry,
with keyword arguments that are literals.
"""

import ast
import json
from collections.abc import Collection
from typing import Any

LARGEST = {"exponent": 10_000, "precision": 10_000}
"""Arguments of the math functions whose cost grows with the value: a bigger one would hang the checker."""


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """The call as BFCL's `convert_to_function_call` writes it for `eval()`."""
    return f"{name}({','.join(f'{key}={value!r}' for key, value in arguments.items())})"


def text_refusal(text: str, names: Collection[str]) -> str | None:
    """Why a call's text may not be evaluated, or None when it may."""
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return "no Python expression"
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return "not a plain call"
    if call.func.id not in names:
        return f"{call.func.id!r} is no function of this entry"
    if call.args:
        return "positional arguments"
    for keyword in call.keywords:
        try:
            value = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return f"argument {keyword.arg!r} is no literal"
        if keyword.arg is None:
            return "** arguments"
        limit = LARGEST.get(keyword.arg)
        if limit is not None and isinstance(value, int | float) and abs(value) > limit:
            return f"{keyword.arg} beyond {limit}"
    return None


def step_refusal(step: Any, names: Collection[str], evaluated: bool) -> str | None:
    """Why one model response is refused, or None.

    Args:
        step: A list of `{name: arguments as JSON}`, or text when the model only talked.
        names: Functions of the entry, as the model saw them.
        evaluated: True when the calls reach `eval()` (multi-turn); else name and JSON are checked.
    """
    if step is None or isinstance(step, str):
        return None
    for call in step:
        for name, raw in call.items():
            try:
                arguments = json.loads(raw) if isinstance(raw, str) else raw
            except (ValueError, RecursionError):
                return "arguments are no JSON"
            if not isinstance(arguments, dict):
                return "arguments are no JSON object"
            if name not in names:
                return f"{name!r} is no function of this entry"
            if evaluated:
                reason = text_refusal(call_text(name, arguments), names)
                if reason:
                    return reason
    return None


def answer_refusal(answer: Any, names: Collection[str], evaluated: bool) -> str | None:
    """`step_refusal` over a whole answer; a multi-turn answer is a list of turns of steps."""
    steps = [step for turn in answer for step in turn] if evaluated else [answer]
    return next((reason for step in steps if (reason := step_refusal(step, names, evaluated))), None)
