"""Messages: people in teams, threads between them, and wishes that only the user can make clear.

"The one in red" names somebody where the team has one member; where it has two, the user has to be
asked. Asking is a tool, so whom the user meant is a response like any other, but one that nothing
printed foretells. A guess that happens to be right does not pass: it was not asked for.
"""

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

TEAMS = ("red", "blue", "green")
THREAD_LETTERS = "hjqwxy"
NAMES = one_key({"type": "array", "items": {"type": "string"}})
THREAD = one_key({"type": "array", "items": row("string", "string")})


def word(rng: random.Random) -> str:
    """What a message says: a letter and a digit."""
    return f"{rng.choice('ckpz')}{rng.randint(0, 9)}"


class Messages(World):
    """Five people in three teams, and three threads."""

    name = "messages"
    tools: ClassVar[tuple[Tool, ...]] = (
        tool("team", "People in a team.", returns=NAMES, team="string"),
        tool("threads", "Threads that a person wrote in.", returns=NAMES, person="string"),
        tool("read", "Messages of a thread with their senders.", returns=THREAD, thread="string"),
        tool(
            "send", "Send a message to a person; final.", irreversible=True, returns=keys(sent="string"),
            person="string", text="string",
        ),
        tool(
            "reply", "Write in a thread; final.", irreversible=True, returns=keys(replied="string"),
            thread="string", text="string",
        ),
        tool(
            "forward", "Show a thread to a person who did not write in it; final.", irreversible=True,
            returns=keys(forwarded="string"), thread="string", person="string",
        ),
        tool("ask", "Ask the user who of a team is meant.", returns=keys(user="string"), team="string"),
    )  # fmt: skip
    templates: ClassVar[dict[str, Split]] = {
        "last": "demonstrated",
        "threads_of": "demonstrated",
        "send": "demonstrated",
        "reply": "demonstrated",
        "forward": "demonstrated",
        "send_team": "demonstrated",
        "reply_of": "practiced",
        "forward_of": "practiced",
        "forward_team": "held_out",
    }

    def __init__(self, rng: random.Random, names: NamePool) -> None:
        people = names.draw(rng, 5)
        several = rng.sample(TEAMS, 2)
        rest = iter(people)
        self.teams = {team: [next(rest) for _ in range(1 + (team in several))] for team in TEAMS}
        self.threads_by_id: dict[str, list[list[str]]] = {
            f"{letter}{rng.randint(0, 9)}": [
                [person, word(rng)] for person in rng.sample(people, rng.randint(1, 2))
            ]
            for letter in rng.sample(THREAD_LETTERS, 3)
        }
        self.meant: dict[str, str] = {}
        self.asked: set[str] = set()
        self.log: list[tuple[str, ...]] = []

    def printed(self) -> str:
        return compact(self.teams | self.threads_by_id)

    def state(self) -> Any:
        return self.threads_by_id, sorted(self.log), sorted(self.asked)

    def _people(self) -> list[str]:
        return [person for team in self.teams.values() for person in team]

    def _of(self, person: str) -> list[str]:
        return [id for id, thread in self.threads_by_id.items() if person in {who for who, _ in thread}]

    def random_arguments(self, tool: str, rng: random.Random, names: NamePool) -> dict[str, Any]:
        known = rng.random() < 0.85
        person = rng.choice(self._people()) if known else names.draw(rng, 1)[0]
        thread = (
            rng.choice(list(self.threads_by_id))
            if known
            else f"{rng.choice(THREAD_LETTERS)}{rng.randint(0, 9)}"
        )
        match tool:
            case "team" | "ask":
                return {"team": rng.choice([*self.meant, *TEAMS])}
            case "threads":
                return {"person": person}
            case "read":
                return {"thread": thread}
            case "send":
                return {"person": person, "text": word(rng)}
            case "reply":
                return {"thread": thread, "text": word(rng)}
        return {"thread": thread, "person": person}

    def _person(self, person: str) -> None:
        if person not in self._people():
            raise ToolError("person")

    def _thread(self, thread: str) -> list[list[str]]:
        if thread not in self.threads_by_id:
            raise ToolError("thread")
        return self.threads_by_id[thread]

    def team(self, team: str) -> Response:
        if team not in self.teams:
            raise ToolError("team")
        return {team: self.teams[team]}

    def threads(self, person: str) -> Response:
        self._person(person)
        return {person: self._of(person)}

    def read(self, thread: str) -> Response:
        return {thread: self._thread(thread)}

    def send(self, person: str, text: str) -> Response:
        self._person(person)
        self.log.append(("send", person, text))
        return {"sent": person}

    def reply(self, thread: str, text: str) -> Response:
        self._thread(thread).append(["me", text])
        return {"replied": thread}

    def forward(self, thread: str, person: str) -> Response:
        self._thread(thread)
        self._person(person)
        if thread in self._of(person):
            raise ToolError("member")
        self.log.append(("forward", thread, person))
        return {"forwarded": thread}

    def ask(self, team: str) -> Response:
        if team not in self.meant:
            raise ToolError("clear")
        self.asked.add(team)
        return {"user": self.meant[team]}

    def _stranger(self, rng: random.Random, thread: str) -> str:
        """Somebody who did not write in a thread; three of five at least never did."""
        return rng.choice([person for person in self._people() if thread not in self._of(person)])

    def _the_one(self, rng: random.Random) -> tuple[str, str]:
        """A team, and who of it the user means; of two, the user has to say it."""
        crowded = rng.random() < 0.5
        team = rng.choice([name for name, people in self.teams.items() if (len(people) > 1) is crowded])
        person = rng.choice(self.teams[team])
        if crowded:
            self.meant[team] = person
        return team, person

    def _resolve(self, team: str) -> Expert:
        """Who is meant: look the team up, and ask where that leaves it open."""
        found = yield ToolCall(name="team", arguments={"team": team})
        if len(found[team]) == 1:
            return found[team][0]
        told = yield ToolCall(name="ask", arguments={"team": team})
        return told["user"]

    def goal_last(self, rng: random.Random, names: NamePool) -> Goal:
        thread = rng.choice(list(self.threads_by_id))

        def expert() -> Expert:
            found = yield ToolCall(name="read", arguments={"thread": thread})
            return " ".join(found[thread][-1])

        return Goal(f"last in {thread}?", expert)

    def goal_threads_of(self, rng: random.Random, names: NamePool) -> Goal:
        person = rng.choice([person for person in self._people() if self._of(person)])

        def expert() -> Expert:
            found = yield ToolCall(name="threads", arguments={"person": person})
            return " ".join(found[person])

        return Goal(f"threads of {person}?", expert)

    def goal_send(self, rng: random.Random, names: NamePool) -> Goal:
        wish = {"person": rng.choice(self._people()), "text": word(rng)}

        def expert() -> Expert:
            yield ToolCall(name="send", arguments=wish)
            return "done"

        return Goal(f"send {wish['text']} to {wish['person']}", expert)

    def goal_reply(self, rng: random.Random, names: NamePool) -> Goal:
        wish = {"thread": rng.choice(list(self.threads_by_id)), "text": word(rng)}

        def expert() -> Expert:
            yield ToolCall(name="reply", arguments=wish)
            return "done"

        return Goal(f"reply {wish['text']} in {wish['thread']}", expert)

    def goal_forward(self, rng: random.Random, names: NamePool) -> Goal:
        thread = rng.choice(list(self.threads_by_id))
        members = [who for who, _ in self.threads_by_id[thread]]
        person = rng.choice(members) if rng.random() < 0.3 else self._stranger(rng, thread)

        def expert() -> Expert:
            done = yield ToolCall(name="forward", arguments={"thread": thread, "person": person})
            return done.get("error", "done")

        return Goal(f"forward {thread} to {person}", expert)

    def goal_send_team(self, rng: random.Random, names: NamePool) -> Goal:
        team, _ = self._the_one(rng)
        text = word(rng)

        def expert() -> Expert:
            person = yield from self._resolve(team)
            yield ToolCall(name="send", arguments={"person": person, "text": text})
            return f"done {person}"

        return Goal(f"send {text} to the one in {team}", expert)

    def _only_thread(self, rng: random.Random) -> str:
        """Somebody who wrote in one thread exactly."""
        people = [person for person in self._people() if len(self._of(person)) == 1]
        if not people:
            raise NotPossible
        return rng.choice(people)

    def goal_reply_of(self, rng: random.Random, names: NamePool) -> Goal:
        person, text = self._only_thread(rng), word(rng)

        def expert() -> Expert:
            found = yield ToolCall(name="threads", arguments={"person": person})
            yield ToolCall(name="reply", arguments={"thread": found[person][0], "text": text})
            return "done"

        return Goal(f"reply {text} in the thread of {person}", expert)

    def goal_forward_of(self, rng: random.Random, names: NamePool) -> Goal:
        person = self._only_thread(rng)
        to = self._stranger(rng, self._of(person)[0])

        def expert() -> Expert:
            found = yield ToolCall(name="threads", arguments={"person": person})
            yield ToolCall(name="forward", arguments={"thread": found[person][0], "person": to})
            return "done"

        return Goal(f"forward the thread of {person} to {to}", expert)

    def goal_forward_team(self, rng: random.Random, names: NamePool) -> Goal:
        team, meant = self._the_one(rng)
        threads = [id for id in self.threads_by_id if id not in self._of(meant)]
        if not threads:
            raise NotPossible
        thread = rng.choice(threads)

        def expert() -> Expert:
            person = yield from self._resolve(team)
            yield ToolCall(name="forward", arguments={"thread": thread, "person": person})
            return f"done {person}"

        return Goal(f"forward {thread} to the one in {team}", expert)
