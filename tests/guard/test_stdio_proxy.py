"""`envace guard` on stdio in front of a real server on stdio; the client is the official one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from anyio.from_thread import start_blocking_portal
from guarded import GUARD, ROOT, SERVER, Person, Session, configured, connected, logged, predict, reached
from mcp import MCPError
from mcp.types import ElicitResult
from scripted_server import Served, dead_url, serving


@dataclass
class Both:
    """A guarded session and a direct one."""

    guarded: Session
    direct: Session
    folder: Path
    model: Served
    person: Person

    def cost(self) -> tuple[int, int]:
        """Model calls, and calls that reached the server, so far."""
        return len(self.model.bodies), len(reached(self.folder))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder, apart = tmp_path_factory.mktemp("guarded"), tmp_path_factory.mktemp("direct")
    person = Person()
    with (
        serving(predict) as model,
        start_blocking_portal() as portal,
        connected(portal, (*GUARD, configured(folder, model.url)), person) as guarded,
        connected(portal, (sys.executable, SERVER, apart / "counts")) as direct,
    ):
        yield Both(guarded, direct, folder, model, person)


def test_what_is_not_a_guarded_call_passes_as_it_is_and_costs_nothing(both: Both) -> None:
    requests: list[tuple[str, Any]] = [
        ("list_tools", ()),
        ("list_resources", ()),
        ("list_prompts", ()),
        ("read_resource", ("accounts://all",)),
        ("get_prompt", ("farewell", {"name": "ada"})),
    ]
    for method, arguments in requests:
        assert both.guarded.do(method, *arguments) == both.direct.do(method, *arguments)
    for session in (both.guarded, both.direct):
        with pytest.raises(MCPError, match="nowhere"):
            session.do("read_resource", "accounts://nowhere")
    assert both.guarded.client.protocol_version == both.direct.client.protocol_version == "2026-07-28"
    assert both.guarded.client.instructions == both.direct.client.instructions
    assert both.cost() == (0, 0)


def test_a_read_only_tool_adds_no_model_call_and_its_progress_arrives(both: Both) -> None:
    models, calls = both.cost()
    assert both.guarded.call("balance", name="ada") == both.direct.call("balance", name="ada")
    assert both.guarded.progress == both.direct.progress == [1.0]
    assert both.cost() == (models, calls + 1) and not logged(both.folder)


def test_a_destructive_call_beyond_its_limits_is_stopped_with_rule_and_reason(both: Both) -> None:
    models, calls = both.cost()
    result = both.guarded.call("close", name="bob")
    assert result.is_error and both.cost() == (models + 2, calls)
    text = result.content[0].text
    assert 'close {"name":"bob"}' in text and "rule limits" in text and "paid_out is -5, below 0" in text
    assert "Nothing was executed" in text
    entry = logged(both.folder)[-1]
    assert (entry["tool"], entry["decision"], entry["rule"]) == ("close", "deny", "limits")
    assert entry["predictions"] == ['{"paid_out":-5}'] * 2
    assert result.meta["envace/verdict"]["reason"] == entry["reason"]


def test_a_destructive_call_that_nothing_speaks_against_passes(both: Both) -> None:
    models, calls = both.cost()
    assert both.guarded.call("close", name="ada") == both.direct.call("close", name="ada")
    assert both.cost() == (models + 2, calls + 1)
    assert logged(both.folder)[-1]["decision"] == "allow"


def test_the_model_sees_instructions_tools_and_earlier_results_of_the_session(both: Both) -> None:
    both.guarded.call("close", name="ada")
    prompt = both.model.bodies[-1]["messages"][1]["content"]
    assert "ada has 120, bob has -5" in prompt
    assert "balance(name) close(name) note(text) crash()" in prompt
    assert 'assistant: {"name":"balance","arguments":{"name":"ada"}}\ntool: {"balance":120}' in prompt


@pytest.mark.parametrize(
    ("answer", "noted", "passes"),
    [
        (ElicitResult(action="accept", content={"allow": True}), "accept", True),
        (ElicitResult(action="accept", content={"allow": False}), "decline", False),
        (ElicitResult(action="decline"), "decline", False),
        (ElicitResult(action="cancel"), "cancel", False),
    ],
)
def test_in_doubt_a_person_is_asked(both: Both, answer: ElicitResult, noted: str, passes: bool) -> None:
    both.person.answer = answer
    (models, calls), asked = both.cost(), len(both.person.asked)
    result = both.guarded.call("note", text="doubt")
    # Asked once, rehearsed once: making the call again with the answer costs nothing.
    assert len(both.person.asked) == asked + 1 and both.cost() == (models + 2, calls + passes)
    assert "rule disagreement" in both.person.asked[-1] and "only 1 of 2 rehearsals" in both.person.asked[-1]
    entry = logged(both.folder)[-1]
    assert (entry["decision"], entry["answer"]) == ("ask", noted)
    if passes:
        assert result == both.direct.call("note", text="doubt")
    else:
        assert result.is_error and f"answer: {noted}" in result.content[0].text


def test_a_tool_without_annotations_is_rehearsed_and_so_is_one_that_is_not_listed(both: Both) -> None:
    models, calls = both.cost()
    assert both.guarded.call("note", text="plain") == both.direct.call("note", text="plain")
    assert both.cost() == (models + 2, calls + 1)
    assert both.guarded.call("burn", text="all") == both.direct.call("burn", text="all")
    assert both.cost() == (models + 4, calls + 1) and logged(both.folder)[-1]["tool"] == "burn"


def test_a_server_that_dies_is_one_clear_error_and_no_hang(both: Both) -> None:
    for tool in ("crash", "balance", "close"):  # in the middle of a call, and in all that follow
        with pytest.raises(MCPError, match=r"the MCP server .* is gone"):
            both.guarded.call(tool, **({} if tool == "crash" else {"name": "ada"}))
    assert reached(both.folder)[-1] == "crash"


def test_an_interrupted_guard_ends_at_once_and_its_server_with_it(tmp_path: Path) -> None:
    config = configured(tmp_path, dead_url())
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*GUARD, str(config)], env=environment, **pipes) as guard:
        assert guard.stdin is not None and guard.stdout is not None
        guard.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        guard.stdin.flush()
        assert b'"id":1' in guard.stdout.readline()
        (server,) = psutil.Process(guard.pid).children()
        guard.send_signal(signal.SIGINT)
        assert guard.wait(10) == 128 + signal.SIGINT  # though its input is still open
        assert not server.is_running()
