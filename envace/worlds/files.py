"""Files: a small tree, names that occur twice, and a deletion that nobody can take back."""

import random
from typing import Any, ClassVar

from envace.trajectory import Tool, ToolCall, compact
from envace.worlds.base import (
    Expert,
    Goal,
    Response,
    Split,
    ToolError,
    World,
    keys,
    one_key,
    tool,
)
from envace.worlds.names import NamePool

TEXT_LETTERS = "hjqwxy"
NAMES = one_key({"type": "array", "items": {"type": "string"}})
TEXT = one_key({"type": "string"})


def text(rng: random.Random) -> str:
    """What a file holds: a letter and a digit."""
    return f"{rng.choice(TEXT_LETTERS)}{rng.randint(0, 9)}"


class Files(World):
    """Three folders with three files, one of which has a namesake in another folder."""

    name = "files"
    tools: ClassVar[tuple[Tool, ...]] = (
        tool("folder", "Names in a folder.", returns=NAMES, folder="string"),
        tool("find", "Folders that hold a name.", returns=NAMES, name="string"),
        tool("read", "Text under a name.", returns=TEXT, folder="string", name="string"),
        tool(
            "write", "Write a text, over another if there is one.", returns=keys(written="string"),
            folder="string", name="string", text="string",
        ),
        tool(
            "move", "Move to another folder; refused when the name is taken there.",
            returns=keys(moved="string"), folder="string", name="string", to="string",
        ),
        tool(
            "delete", "Delete for good.", irreversible=True, returns=keys(deleted="string"),
            folder="string", name="string",
        ),
    )  # fmt: skip
    templates: ClassVar[dict[str, Split]] = {
        "read": "demonstrated",
        "count": "demonstrated",
        "where": "demonstrated",
        "write": "demonstrated",
        "move": "demonstrated",
        "delete": "demonstrated",
        "copy": "practiced",
        "move_found": "practiced",
        "move_over": "practiced",
        "delete_everywhere": "held_out",
    }

    def __init__(self, rng: random.Random, names: NamePool) -> None:
        drawn = names.draw(rng, 6)
        folders, files = drawn[:3], drawn[3:]
        self.tree: dict[str, dict[str, str]] = {folder: {} for folder in folders}
        for name in files:
            self.tree[rng.choice(folders)][name] = text(rng)
        self.twice = rng.choice(files)
        self.tree[rng.choice(self._without(self.twice))][self.twice] = text(rng)
        self.log: list[tuple[str, ...]] = []

    def printed(self) -> str:
        return compact(self.tree)

    def state(self) -> Any:
        # Of what was done, the order is nobody's wish but where it decides what the tree holds.
        return self.tree, sorted(self.log)

    def _with(self, name: str) -> list[str]:
        return [folder for folder, files in self.tree.items() if name in files]

    def _without(self, name: str) -> list[str]:
        return [folder for folder, files in self.tree.items() if name not in files]

    def _places(self) -> list[tuple[str, str]]:
        return [(folder, name) for folder, files in self.tree.items() for name in files]

    def random_arguments(self, tool: str, rng: random.Random, names: NamePool) -> dict[str, Any]:
        places = self._places()
        folder, name = rng.choice(places) if places and rng.random() < 0.8 else names.draw(rng, 2)
        if rng.random() < 0.2:
            folder = rng.choice(list(self.tree))
        match tool:
            case "folder":
                return {"folder": folder}
            case "find":
                return {"name": name}
            case "write":
                return {"folder": folder, "name": name, "text": text(rng)}
            case "move":
                return {"folder": folder, "name": name, "to": rng.choice(list(self.tree))}
        return {"folder": folder, "name": name}

    def _folder(self, folder: str) -> dict[str, str]:
        if folder not in self.tree:
            raise ToolError("folder")
        return self.tree[folder]

    def _holding(self, folder: str, name: str) -> dict[str, str]:
        files = self._folder(folder)
        if name not in files:
            raise ToolError("name")
        return files

    def folder(self, folder: str) -> Response:
        return {folder: [*self._folder(folder)]}

    def find(self, name: str) -> Response:
        if not self._with(name):
            raise ToolError("name")
        return {name: self._with(name)}

    def read(self, folder: str, name: str) -> Response:
        return {name: self._holding(folder, name)[name]}

    def write(self, folder: str, name: str, text: str) -> Response:
        self._folder(folder)[name] = text
        self.log.append(("write", folder, name, text))
        return {"written": name}

    def move(self, folder: str, name: str, to: str) -> Response:
        files = self._holding(folder, name)
        target = self._folder(to)
        if name in target:
            raise ToolError("taken")
        target[name] = files.pop(name)
        self.log.append(("move", folder, name, to))
        return {"moved": name}

    def delete(self, folder: str, name: str) -> Response:
        del self._holding(folder, name)[name]
        self.log.append(("delete", folder, name))
        return {"deleted": name}

    def _once(self, rng: random.Random) -> str:
        """A name that only one folder holds."""
        return rng.choice([name for _, name in self._places() if name != self.twice])

    def goal_read(self, rng: random.Random, names: NamePool) -> Goal:
        folder, name = rng.choice(self._places())

        def expert() -> Expert:
            found = yield ToolCall(name="read", arguments={"folder": folder, "name": name})
            return found[name]

        return Goal(f"read {name} in {folder}", expert)

    def goal_count(self, rng: random.Random, names: NamePool) -> Goal:
        folder = rng.choice(list(self.tree))

        def expert() -> Expert:
            found = yield ToolCall(name="folder", arguments={"folder": folder})
            return str(len(found[folder]))

        return Goal(f"how many in {folder}?", expert)

    def goal_where(self, rng: random.Random, names: NamePool) -> Goal:
        name = rng.choice(self._places())[1]

        def expert() -> Expert:
            found = yield ToolCall(name="find", arguments={"name": name})
            return " ".join(found[name])

        return Goal(f"where is {name}?", expert)

    def goal_write(self, rng: random.Random, names: NamePool) -> Goal:
        folder, name = rng.choice(self._places())
        if rng.random() < 0.5:
            name = names.draw(rng, 1, avoid=tuple(self.tree))[0]
        wish = {"folder": folder, "name": name, "text": text(rng)}

        def expert() -> Expert:
            yield ToolCall(name="write", arguments=wish)
            return "done"

        return Goal(f"write {wish['text']} to {name} in {folder}", expert)

    def goal_move(self, rng: random.Random, names: NamePool) -> Goal:
        clash = rng.random() < 0.5
        name = self.twice if clash else self._once(rng)
        folder, *others = self._with(name)
        to = others[0] if clash else rng.choice(self._without(name))

        def expert() -> Expert:
            done = yield ToolCall(name="move", arguments={"folder": folder, "name": name, "to": to})
            return "taken" if "error" in done else "done"

        return Goal(f"move {name} from {folder} to {to}", expert)

    def goal_delete(self, rng: random.Random, names: NamePool) -> Goal:
        folder, name = rng.choice(self._places())

        def expert() -> Expert:
            yield ToolCall(name="delete", arguments={"folder": folder, "name": name})
            return "done"

        return Goal(f"delete {name} in {folder}", expert)

    def goal_copy(self, rng: random.Random, names: NamePool) -> Goal:
        folder, name = rng.choice(self._places())
        to = rng.choice(self._without(name))

        def expert() -> Expert:
            found = yield ToolCall(name="read", arguments={"folder": folder, "name": name})
            yield ToolCall(name="write", arguments={"folder": to, "name": name, "text": found[name]})
            return "done"

        return Goal(f"copy {name} from {folder} to {to}", expert)

    def goal_move_found(self, rng: random.Random, names: NamePool) -> Goal:
        name = self._once(rng)
        to = rng.choice(self._without(name))

        def expert() -> Expert:
            found = yield ToolCall(name="find", arguments={"name": name})
            yield ToolCall(name="move", arguments={"folder": found[name][0], "name": name, "to": to})
            return "done"

        return Goal(f"move {name} to {to}", expert)

    def goal_move_over(self, rng: random.Random, names: NamePool) -> Goal:
        name = self.twice if rng.random() < 0.7 else self._once(rng)
        folder, *others = self._with(name)
        to = others[0] if others else rng.choice(self._without(name))

        def expert() -> Expert:
            wish = ToolCall(name="move", arguments={"folder": folder, "name": name, "to": to})
            done = yield wish
            if "error" in done:
                yield ToolCall(name="delete", arguments={"folder": to, "name": name})
                yield wish
            return "done"

        return Goal(f"move {name} from {folder} to {to} over another", expert)

    def goal_delete_everywhere(self, rng: random.Random, names: NamePool) -> Goal:
        name = self.twice if rng.random() < 0.7 else self._once(rng)

        def expert() -> Expert:
            found = yield ToolCall(name="find", arguments={"name": name})
            for folder in found[name]:
                yield ToolCall(name="delete", arguments={"folder": folder, "name": name})
            return "done"

        return Goal(f"delete {name} everywhere", expert)
