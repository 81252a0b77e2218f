"""Where evaluation items come from: harnesses, published files, recorded trajectories, items files."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from envace.benchmarks import BENCHMARKS, benchmark
from envace.errors import EnvaceError
from envace.imports import FORMATS
from envace.imports.containers import raw_records
from envace.imports.conversation import Origin
from envace.leakage.calls import canonical_calls
from envace.leakage.records import EvalItem
from envace.trajectory import Tool, ToolCall, Trajectory, iter_records


def vitabench_item(value: Any, place: str) -> EvalItem:
    """A task of VitaBench (meituan-longcat/vitabench, `tasks.json` or `tasks_en.json` of a domain).

    The user is told what to want; tools and reference calls are not in the file.
    """
    return EvalItem(
        benchmark="vitabench",
        id=f"{value['domain']}/{value['id']}",
        split=value["domain"],
        text=value["instructions"],
    )


def trajectory_item(trajectory: Trajectory, name: str) -> EvalItem:
    """A recorded trajectory as an item: what the user says, the tools, the calls made."""
    return item(name, trajectory.id, trajectory.user_text(), trajectory.tools, trajectory.calls())


def item(
    name: str, id: str, text: str, tools: Iterable[Tool], calls: Iterable[ToolCall], split: str = ""
) -> EvalItem:
    """An item of the set `name` from records of this project."""
    made = list(calls)
    offered = {tool.name: tool.parameters for tool in tools}
    return EvalItem(
        benchmark=name,
        id=id,
        split=split,
        text=text,
        tools=tuple(offered),
        schemas={tool: tuple(parameters.get("properties") or ()) for tool, parameters in offered.items()},
        json_schemas=offered,
        gold_calls=canonical_calls(made) if made else "",
    )


READERS: dict[str, Callable[[Any, str], EvalItem]] = {"vitabench": vitabench_item}
"""Files of one benchmark that are no trajectories: makes an item of a decoded record and its place."""


def read_items(entry: str) -> Iterator[EvalItem]:
    """The items of one entry of `--against`.

    Args:
        entry: A benchmark with a harness (`bfcl_v4`, `tau2`; `tau2:test` for one split), `NAME=FILE` for a
            published file (`vitabench` or an import format, as in `finmcp=FILE`), or a file of `EvalItem`
            lines.

    Raises:
        EnvaceError: No such file, harness or format, or a record that cannot be read.
    """
    name, _, path = entry.partition("=")
    known = [*READERS, *FORMATS]
    if path:
        if name not in known:
            raise EnvaceError(f"no reader for {name}", f"choose from {', '.join(known)}")
        yield from _published(name, Path(path))
    elif (chosen := name.partition(":"))[0] in BENCHMARKS:
        yield from _measured(chosen[0], chosen[2])
    elif name in known:
        raise EnvaceError(f"{name} is read from your own copy of it", f"write {name}=FILE")
    else:
        yield from iter_records(name, EvalItem)


def _measured(name: str, split: str) -> Iterator[EvalItem]:
    """Items of a harness; with a split, those of `split` or of every `DOMAIN/split`."""
    found = [item for item in benchmark(name).items() if split in ("", item.split, item.split.split("/")[-1])]
    if not found:
        raise EnvaceError(f"{name} has no items of split {split}", f"write {name} for all of them")
    yield from (EvalItem.model_validate(item.model_dump()) for item in found)


def _published(name: str, path: Path) -> Iterator[EvalItem]:
    for raw in raw_records(path):
        place = f"{path}:{raw.line}"
        if raw.error:
            raise EnvaceError(f"{place}: {raw.error}", "mend the file")
        try:
            if name in READERS:
                yield READERS[name](raw.value, place)
            else:
                origin = Origin(name, f"{path.stem}:{raw.line}", place)
                yield trajectory_item(FORMATS[name](raw.value, origin).record, name)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EnvaceError(f"{place}: no record of {name}: {error!r}", "is it the right file?") from error
