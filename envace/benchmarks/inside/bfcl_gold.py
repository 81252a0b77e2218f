"""Answers to BFCL entries that are known to be right, wrong or absent, in the shape a model gives them.

They go down the same path as a model's answers and so prove the path: gold must score 100 %, spoiled
0 %, and nothing is the floor that a silent model reaches.
"""

import ast
import json
from typing import Any

UNANSWERABLE = {
    "simple_java_36": "its list mixes types, and the checker reads every element as text",
    "simple_java_64": "its value is no list of values, and the checker compares with each of its letters",
    "simple_java_65": "its list mixes types, and the checker reads every element as text",
    "live_simple_106-63-0": "a required argument has no accepted value",
    "live_simple_112-68-0": "a required argument has no accepted value",
    "live_multiple_862-181-3": "it wants an argument that its function does not declare",
    "live_multiple_964-207-0": "it wants an argument that its function does not declare",
}
"""Entries of which the official checker accepts no right answer: a proof by gold answers leaves them out."""

Call = dict[str, str]
"""One call as the official handler stores it: `{name: arguments as JSON}`."""


def wire_name(name: str) -> str:
    """A function's name as models see it: OpenAI allows no dots."""
    return name.replace(".", "_")


def chosen(accepted: dict[str, list]) -> dict[str, Any]:
    """One accepted value an argument; `""` means "may be left out", and is left out if nothing else is."""
    listed = {key: options if isinstance(options, list) else [options] for key, options in accepted.items()}
    values = {key: [v for v in options if v != ""] for key, options in listed.items()}
    return {key: plain(options[0]) for key, options in values.items() if options}


def plain(value: Any) -> Any:
    """A gold value without alternatives: objects, alone or in a list, hold lists of accepted values."""
    if isinstance(value, dict):
        return chosen(value)
    if isinstance(value, list):
        return [plain(item) if isinstance(item, dict) else item for item in value]
    return value


def single_turn_calls(gold: list[dict[str, dict[str, list]]]) -> list[tuple[str, dict[str, Any]]]:
    """Gold calls of a single-turn entry."""
    return [(name, chosen(accepted)) for call in gold for name, accepted in call.items()]


def declared_calls(
    gold: list[dict[str, dict[str, list]]], functions: list[dict[str, Any]]
) -> list[tuple[str, dict[str, Any]]]:
    """Gold calls that fit the functions: no optional argument that none declares, none required left out."""
    parameters = {f["name"]: f["parameters"] for f in functions}
    calls = []
    for call in gold:
        for name, accepted in call.items():
            known, required = parameters[name]["properties"], parameters[name].get("required", [])
            may_go = {key for key, options in accepted.items() if key not in known and "" in options}
            arguments = {key: value for key, value in chosen(accepted).items() if key not in may_go}
            missing = {key: "" for key in required if key not in arguments and "" in accepted.get(key, [])}
            calls.append((name, arguments | missing))
    return calls


def parameter_names(functions: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Parameter names in order, by function name."""
    return {f["name"]: list(f["parameters"]["properties"]) for f in functions}


def parse_call(text: str, functions: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """A gold call such as `sort('a.txt')` as name and named arguments."""
    call = ast.parse(text.strip(), mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"not a call: {text}")
    order = parameter_names(functions)[call.func.id] if call.args else []
    arguments = {name: ast.literal_eval(value) for name, value in zip(order, call.args, strict=False)}
    arguments |= {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    return call.func.id, arguments


def as_answer(calls: list[tuple[str, dict[str, Any]]]) -> list[Call]:
    """Calls in the official shape."""
    return [{wire_name(name): json.dumps(arguments)} for name, arguments in calls]


def spoil_value(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1_000_003
    if isinstance(value, str):
        return f"{value} spoiled"
    if isinstance(value, list):
        return [spoil_value(item) for item in value] + value
    if isinstance(value, dict):
        return {key: spoil_value(item) for key, item in value.items()}
    return value


def spoil(calls: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """The same calls with every argument wrong."""
    return [(name, {k: spoil_value(v) for k, v in arguments.items()}) for name, arguments in calls]


def answer(mode: str, entry: dict[str, Any], gold: Any, category: str) -> Any:
    """The answer of `mode` (`gold`, `spoiled`, `nothing`) to an entry; `gold` is None for (ir)relevance."""
    if category.startswith("memory"):
        said = {"gold": lambda: str(gold[0]), "spoiled": lambda: "I do not know.", "nothing": lambda: ""}[
            mode
        ]()
        return [[said]]
    if category.startswith("multi_turn"):
        return multi_turn_answer(mode, entry, gold)
    if gold is None:
        # In `relevance` any call is right, in `irrelevance` none is; some entries offer no function at all.
        called = (mode == "gold") == category.endswith("_relevance") and mode != "nothing"
        name = entry["function"][0]["name"] if entry["function"] else "any"
        return [{wire_name(name): "{}"}] if called else ""
    if mode == "nothing":
        return ""
    calls = declared_calls(gold, entry["function"])
    if mode == "spoiled":
        calls = spoil(calls) if any(arguments for _, arguments in calls) else calls + calls
    return as_answer(calls)


def multi_turn_answer(mode: str, entry: dict[str, Any], gold: list[list[str]]) -> list[list[Any]]:
    """Turns of steps; the empty text ends a turn, as a model's closing words do."""
    functions = all_functions(entry)
    turns = [[parse_call(text, functions) for text in turn] for turn in gold]
    if mode == "nothing":
        turns = [[] for _ in turns]
    elif mode == "spoiled":
        # Silent in one turn only: some gold calls are errors, and spoiled arguments reproduce them.
        turns[max(index for index, turn in enumerate(turns) if turn)] = []
    return [[as_answer(turn), ""] for turn in turns]


def all_functions(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Functions of an entry, those handed out in later turns included."""
    return entry["function"] + [f for turn in entry.get("missed_function", {}).values() for f in turn]


def canonical_calls(calls: list[tuple[str, dict[str, Any]]]) -> str:
    """Calls as compact JSON with sorted keys: equal calls give equal text."""
    rows = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return json.dumps(rows, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if rows else ""
