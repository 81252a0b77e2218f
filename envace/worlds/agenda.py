"""Agenda: conflicts that must be noticed and repaired."""

import random
from typing import Any, ClassVar

from envace.trajectory import Tool, ToolCall, compact
from envace.worlds.base import (
    Expert,
    Goal,
    NotPossible,
    Response,
    Split,
    ToolError,
    World,
    keys,
    one_key,
    row,
    tool,
)
from envace.worlds.names import NamePool

DAYS = ("mon", "tue", "wed")
HOURS = range(1, 9)
EVENTS = one_key({"type": "array", "items": row("string", "integer")})
SLOT = one_key(row("string", "integer"))


class Agenda(World):
    """Events with a day and an hour; no two may share both."""

    name = "agenda"
    tools: ClassVar[tuple[Tool, ...]] = (
        tool("day", "Events of a day with their hours.", returns=EVENTS, day="string"),
        tool("find", "Day and hour of an event.", returns=SLOT, title="string"),
        tool(
            "add", "Add an event; refused when the slot is busy.", returns=keys(added="string"),
            title="string", day="string", hour="integer",
        ),
        tool(
            "move", "Move an event; refused when the slot is busy.", returns=keys(moved="string"),
            title="string", day="string", hour="integer",
        ),
        tool("remove", "Remove an event.", returns=keys(removed="string"), title="string"),
    )  # fmt: skip
    templates: ClassVar[dict[str, Split]] = {
        "when": "demonstrated",
        "add": "demonstrated",
        "add_later": "demonstrated",
        "remove": "demonstrated",
        "first": "demonstrated",
        "bump": "practiced",
        "move_day": "practiced",
        "move": "practiced",
        "remove_first": "practiced",
        "move_first": "held_out",
    }

    def __init__(self, rng: random.Random, names: NamePool) -> None:
        count = rng.randint(3, 4)
        self.busy_day = rng.choice(DAYS)
        slots = [(self.busy_day, hour) for hour in rng.sample(HOURS, 2)]
        others = [(day, hour) for day in DAYS if day != self.busy_day for hour in HOURS]
        slots += rng.sample(others, count - 2)
        rng.shuffle(slots)
        self.events = dict(zip(names.draw(rng, count), slots, strict=True))

    def printed(self) -> str:
        events = {title: list(slot) for title, slot in self.events.items()}
        return compact(events | {day: self._on(day) for day in DAYS})

    def state(self) -> Any:
        return self.events

    def _on(self, day: str) -> list[list[Any]]:
        return [[title, hour] for title, (on, hour) in self.events.items() if on == day]

    def _free_or_refuse(self, day: str, hour: int) -> None:
        if day not in DAYS or hour not in HOURS:
            raise ToolError("slot")
        for title, slot in self.events.items():
            if slot == (day, hour):
                raise ToolError("busy", title=title)

    def random_arguments(self, tool: str, rng: random.Random, names: NamePool) -> dict[str, Any]:
        if tool == "day":
            return {"day": rng.choice(DAYS)}
        known = rng.random() < (0.5 if tool == "add" else 0.8) and self.events
        title = rng.choice(list(self.events)) if known else names.draw(rng, 1)[0]
        if tool in ("find", "remove"):
            return {"title": title}
        clash = self.events and rng.random() < 0.4
        day, hour = rng.choice(list(self.events.values())) if clash else (rng.choice(DAYS), rng.choice(HOURS))
        return {"title": title, "day": day, "hour": hour}

    def day(self, day: str) -> Response:
        if day not in DAYS:
            raise ToolError("day")
        return {day: self._on(day)}

    def find(self, title: str) -> Response:
        if title not in self.events:
            raise ToolError("title")
        return {title: list(self.events[title])}

    def add(self, title: str, day: str, hour: int) -> Response:
        self._free_or_refuse(day, hour)
        if title in self.events:
            raise ToolError("title")
        self.events[title] = (day, hour)
        return {"added": title}

    def move(self, title: str, day: str, hour: int) -> Response:
        if title not in self.events:
            raise ToolError("title")
        self._free_or_refuse(day, hour)
        self.events[title] = (day, hour)
        return {"moved": title}

    def remove(self, title: str) -> Response:
        if title not in self.events:
            raise ToolError("title")
        del self.events[title]
        return {"removed": title}

    def _new(self, rng: random.Random, names: NamePool) -> str:
        return names.draw(rng, 1, avoid=tuple(self.events))[0]

    def goal_when(self, rng: random.Random, names: NamePool) -> Goal:
        title = rng.choice(list(self.events))

        def expert() -> Expert:
            found = yield ToolCall(name="find", arguments={"title": title})
            day, hour = found[title]
            return f"{day} {hour}"

        return Goal(f"when is {title}?", expert)

    def goal_add(self, rng: random.Random, names: NamePool) -> Goal:
        title = self._new(rng, names)
        clash = rng.random() < 0.5
        day, hour = rng.choice(list(self.events.values())) if clash else (rng.choice(DAYS), rng.choice(HOURS))

        def expert() -> Expert:
            done = yield ToolCall(name="add", arguments={"title": title, "day": day, "hour": hour})
            return f"busy {done['title']}" if "error" in done else "done"

        return Goal(f"add {title} on {day} at {hour}", expert)

    def goal_add_later(self, rng: random.Random, names: NamePool) -> Goal:
        title = self._new(rng, names)
        clash = rng.random() < 0.7
        day, hour = rng.choice(list(self.events.values())) if clash else (rng.choice(DAYS), rng.choice(HOURS))
        if hour > 6:
            raise NotPossible

        def expert() -> Expert:
            at = hour
            done = yield ToolCall(name="add", arguments={"title": title, "day": day, "hour": at})
            while "error" in done:
                at += 1
                done = yield ToolCall(name="add", arguments={"title": title, "day": day, "hour": at})
            return f"{day} {at}"

        return Goal(f"add {title} on {day} at {hour} or later", expert)

    def goal_bump(self, rng: random.Random, names: NamePool) -> Goal:
        title = self._new(rng, names)
        day, hour = rng.choice(list(self.events.values()))
        free = [other for other in DAYS if (other, hour) not in self.events.values()]
        if not free:
            raise NotPossible
        other = rng.choice(free)

        def expert() -> Expert:
            wish = {"title": title, "day": day, "hour": hour}
            done = yield ToolCall(name="add", arguments=wish)
            if "error" in done:
                yield ToolCall(name="move", arguments={"title": done["title"], "day": other, "hour": hour})
                yield ToolCall(name="add", arguments=wish)
            return "done"

        return Goal(f"add {title} on {day} at {hour} and move a clash to {other}", expert)

    def goal_remove(self, rng: random.Random, names: NamePool) -> Goal:
        title = rng.choice(list(self.events))

        def expert() -> Expert:
            yield ToolCall(name="remove", arguments={"title": title})
            return "done"

        return Goal(f"remove {title}", expert)

    def goal_first(self, rng: random.Random, names: NamePool) -> Goal:
        day = self.busy_day

        def expert() -> Expert:
            found = yield ToolCall(name="day", arguments={"day": day})
            title, hour = min(found[day], key=lambda event: event[1])
            return f"{title} {hour}"

        return Goal(f"first on {day}?", expert)

    def goal_remove_first(self, rng: random.Random, names: NamePool) -> Goal:
        day = self.busy_day

        def expert() -> Expert:
            found = yield ToolCall(name="day", arguments={"day": day})
            title, _ = min(found[day], key=lambda event: event[1])
            yield ToolCall(name="remove", arguments={"title": title})
            return "done"

        return Goal(f"remove the first on {day}", expert)

    def _free_day(self, rng: random.Random, day: str, hour: int) -> str:
        days = [other for other in DAYS if other != day and (other, hour) not in self.events.values()]
        if not days:
            raise NotPossible
        return rng.choice(days)

    def goal_move_day(self, rng: random.Random, names: NamePool) -> Goal:
        title = rng.choice(list(self.events))
        to = self._free_day(rng, *self.events[title])

        def expert() -> Expert:
            found = yield ToolCall(name="find", arguments={"title": title})
            yield ToolCall(name="move", arguments={"title": title, "day": to, "hour": found[title][1]})
            return "done"

        return Goal(f"move {title} to {to} same hour", expert)

    def goal_move(self, rng: random.Random, names: NamePool) -> Goal:
        title = rng.choice(list(self.events))
        hour = rng.choice(HOURS)
        to = self._free_day(rng, self.events[title][0], hour)

        def expert() -> Expert:
            yield ToolCall(name="move", arguments={"title": title, "day": to, "hour": hour})
            return "done"

        return Goal(f"move {title} to {to} at {hour}", expert)

    def goal_move_first(self, rng: random.Random, names: NamePool) -> Goal:
        day = self.busy_day
        hour = min(hour for _, hour in self._on(day))
        to = self._free_day(rng, day, hour)

        def expert() -> Expert:
            found = yield ToolCall(name="day", arguments={"day": day})
            title, at = min(found[day], key=lambda event: event[1])
            yield ToolCall(name="move", arguments={"title": title, "day": to, "hour": at})
            return "done"

        return Goal(f"move the first on {day} to {to} same hour", expert)
