"""Rules on tools and calls: schemas that compile, tools that exist, arguments that fit."""

from typing import Any

from envace.filters.funnel import Rule
from envace.trajectory import Trajectory, compact


class SchemaCache:
    """Compiled JSON-schema validators, one for each distinct schema text.

    A data set repeats a few hundred schemas in every line; compiling each once makes the
    difference between seconds and minutes.
    """

    def __init__(self) -> None:
        self._compiled: dict[str, Any] = {}

    def compiled(self, schema: dict[str, Any]) -> Any:
        """The validator of `schema`, or the reason (str) why it is not a usable JSON schema."""
        text = compact(schema)
        if text not in self._compiled:
            self._compiled[text] = _compile(schema)
        return self._compiled[text]

    def problem(self, schema: dict[str, Any], value: Any) -> str | None:
        """Why `value` does not fit `schema`, in one line, or None."""
        from referencing.exceptions import Unresolvable

        validator = self.compiled(schema)
        if isinstance(validator, str):
            return validator
        try:
            error = next(validator.iter_errors(value), None)
        except Unresolvable as unresolved:
            return f"schema refers to {unresolved.ref}, which is not in it"
        if error is None:
            return None
        where = "/".join(str(part) for part in error.absolute_path)
        return f"{where}: {error.message}"[:300] if where else error.message[:300]


def _compile(schema: dict[str, Any]) -> Any:
    from jsonschema import Draft4Validator, Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    newest = validator_for(schema, default=Draft202012Validator)
    reason = ""
    # Published tool lists seldom say which draft they use, and a few still mean the fourth.
    for draft in (newest, Draft4Validator):
        try:
            draft.check_schema(schema)
        except SchemaError as error:
            where = "/".join(str(part) for part in error.absolute_path)
            reason = reason or f"not a JSON schema: {where}: {error.message}"[:300]
        else:
            # An empty registry keeps a `$ref` in someone's data from making this process fetch a URL.
            return draft(schema, registry=Registry())
    return reason


def tool_schema() -> Rule:
    """A rule that refuses a tool whose parameters are not a JSON schema of an object."""
    cache = SchemaCache()

    def rule(trajectory: Trajectory) -> str | None:
        for tool in trajectory.tools:
            compiled = cache.compiled(tool.parameters)
            if isinstance(compiled, str):
                return f"tool {tool.name}: {compiled}"
            if tool.parameters.get("type", "object") != "object":
                return f"tool {tool.name}: parameters are of type {tool.parameters['type']}, not object"
        return None

    return rule


def calls() -> Rule:
    """A rule that refuses unknown tools and arguments that break the tool's schema.

    Turns with `trainable=False` are exempt: they are wrong calls injected on purpose, so that
    the environment role learns to answer them, and carry no loss.
    """
    cache = SchemaCache()

    def rule(trajectory: Trajectory) -> str | None:
        tools = {tool.name: tool for tool in trajectory.tools}
        for number, message in enumerate(trajectory.messages):
            if not message.trainable:
                continue
            for call in message.tool_calls:
                if call.name not in tools:
                    return f"message {number}: unknown tool {call.name}"
                problem = cache.problem(tools[call.name].parameters, call.arguments)
                if problem:
                    return f"message {number}: {call.name}: {problem}"
        return None

    return rule
