"""Trajectory lines read several times faster, for who looks at many and changes none.

msgspec decodes a line into structures made from the records: the same fields, defaults and limits. It is
stricter than pydantic (no "1" for a number), so what it refuses is read once more, by the rules. Only
nesting deeper than pydantic's limit of some 200 levels passes here and not there.
"""

from functools import cache, lru_cache
from typing import Annotated, Any, cast, get_args, get_origin

import msgspec
from annotated_types import Ge
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from envace.trajectory.jsonl import Quarantined, parse_line
from envace.trajectory.records import SCHEMA_VERSION, Tool, Trajectory

TOOLS = 4096
"""Tools remembered: a data set repeats its tools in every line."""


def read_line(file: str, number: int, text: str) -> Trajectory | Quarantined:
    """A line of a trajectory file as an object with a trajectory's fields, or why it is no trajectory.

    Args:
        file: Name of the file, for the quarantine.
        number: Line number from 1.
        text: The line.

    Returns:
        What has all fields of a `Trajectory`, and of its parts, but no methods. Equal tools of several
        lines are mostly the same object.
    """
    try:
        found = _decoder().decode(text)
        if found.schema_version <= SCHEMA_VERSION:
            found.tools = tuple([_tool(bytes(tool)) for tool in found.tools])
            return cast(Trajectory, found)
    except (msgspec.MsgspecError, ValidationError, RecursionError, UnicodeEncodeError):
        pass
    line = parse_line(file, number, text)
    return line if isinstance(line, Quarantined) else line.trajectory


@lru_cache(TOOLS)
def _tool(raw: bytes) -> Tool:
    return Tool.model_validate_json(raw)


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_structure(Trajectory))


@cache
def _structure(record: type[BaseModel]) -> Any:
    fields = [_field(name, field) for name, field in record.model_fields.items()]
    # Out of the cycle collector's sight: what comes from JSON has no cycles.
    return msgspec.defstruct(record.__name__, fields, forbid_unknown_fields=True, kw_only=True, gc=False)


def _field(name: str, field: FieldInfo) -> Any:
    kind = _kind(field.annotation)
    for limit in field.metadata:
        if not isinstance(limit, Ge):
            raise TypeError(f"{name}: {limit} is no limit that is known here")
        kind = Annotated[kind, msgspec.Meta(ge=cast(float, limit.ge))]
    if field.is_required():
        return name, kind
    if field.default_factory is not None:
        return name, kind, msgspec.field(default_factory=cast(Any, field.default_factory))
    return name, kind, field.default


def _kind(annotation: Any) -> Any:
    if annotation is Tool:
        return msgspec.Raw
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _structure(annotation)
    if get_origin(annotation) is tuple:
        return tuple[_kind(get_args(annotation)[0]), ...]  # type: ignore[misc]
    return annotation
