"""`envace guard` over HTTP, in front of servers on stdio and on HTTP; revisions with a handshake."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from guarded import SERVER, Person, Session, configured, connected, guard_on_http, logged, predict, reached
from mcp import MCPError
from mcp.types import ElicitResult
from scripted_server import Served, serving


@dataclass
class Guarded:
    """A guard over HTTP."""

    url: str
    folder: Path
    model: Served
    upstream: subprocess.Popen | None = None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@pytest.fixture(scope="module")
def model() -> Iterator[Served]:
    with serving(predict) as served:
        yield served


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as started:
        yield started


@pytest.fixture(scope="module")
def over_stdio(model: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """HTTP in front of stdio: every client session has a server process of its own."""
    folder = tmp_path_factory.mktemp("over_stdio")
    with guard_on_http(configured(folder, model.url, port=0)) as url:
        yield Guarded(url, folder, model)


@pytest.fixture(scope="module")
def over_http(model: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """HTTP in front of HTTP."""
    folder, port = tmp_path_factory.mktemp("over_http"), free_port()
    process = subprocess.Popen([sys.executable, str(SERVER), str(folder / "counts"), str(port)])
    try:
        config = configured(folder, model.url, port=0, upstream={"url": f"http://127.0.0.1:{port}/mcp"})
        with guard_on_http(config) as url:
            while True:
                assert process.poll() is None
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.02)
            yield Guarded(url, folder, model, process)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def plain(over_stdio: Guarded, portal: BlockingPortal) -> Iterator[Session]:
    """A client that takes no questions."""
    with connected(portal, over_stdio.url) as session:
        yield session


def test_a_client_lists_and_calls_through_http_on_both_sides(
    over_http: Guarded, portal: BlockingPortal
) -> None:
    assert over_http.upstream is not None
    direct_url = f"http://127.0.0.1:{over_http.upstream.args[-1]}/mcp"  # type: ignore[index]
    with connected(portal, over_http.url) as guarded, connected(portal, direct_url, mode="legacy") as direct:
        assert guarded.client.protocol_version == "2025-11-25"  # a revision without a handshake is declined
        for method, arguments in (
            ("list_tools", ()),
            ("list_resources", ()),
            ("read_resource", ("accounts://all",)),
            ("get_prompt", ("farewell", {"name": "ada"})),
        ):
            assert guarded.do(method, *arguments) == direct.do(method, *arguments)
        models = len(over_http.model.bodies)
        assert guarded.call("balance", name="ada") == direct.call("balance", name="ada")
        assert guarded.progress == direct.progress == [1.0]
        assert len(over_http.model.bodies) == models and not logged(over_http.folder)
        before = reached(over_http.folder)
        stopped = guarded.call("close", name="bob")
        assert stopped.is_error and "rule limits" in stopped.content[0].text
        assert reached(over_http.folder) == before and len(over_http.model.bodies) == models + 2
        assert guarded.call("close", name="ada") == direct.call("close", name="ada")


def test_in_doubt_a_client_without_questions_is_told_how_to_allow_the_call(
    over_stdio: Guarded, plain: Session
) -> None:
    # The client never listed the tools: the guard does, before it decides about the first call.
    models = len(over_stdio.model.bodies)
    assert plain.call("balance", name="ada").structured_content == {"balance": 120}
    assert len(over_stdio.model.bodies) == models
    result = plain.call("note", text="doubt")
    text = result.content[0].text
    assert result.is_error and "rule disagreement" in text
    assert "client with elicitation" in text and "tools.reversible" in text
    assert logged(over_stdio.folder)[-1]["answer"] == "unasked"
    assert reached(over_stdio.folder) == ["balance"]


def test_in_doubt_a_person_is_asked_over_the_calls_own_stream(
    over_stdio: Guarded, portal: BlockingPortal
) -> None:
    person = Person()
    with connected(portal, over_stdio.url, person) as session:
        for consents in (True, False):
            before = reached(over_stdio.folder)
            person.answer = ElicitResult(action="accept", content={"allow": consents})
            result = session.call("note", text="doubt")
            assert "rule disagreement" in person.asked[-1] and result.is_error is not consents
            assert reached(over_stdio.folder) == before + ["note"] * consents
    assert len(person.asked) == 2


def test_sessions_have_servers_of_their_own_and_one_that_dies_leaves_the_others(
    over_stdio: Guarded, plain: Session, portal: BlockingPortal
) -> None:
    with connected(portal, over_stdio.url) as doomed:
        for tool, arguments in (("crash", {}), ("balance", {"name": "ada"})):
            with pytest.raises(MCPError, match=r"the MCP server .* is gone"):
                doomed.call(tool, **arguments)
    assert plain.call("balance", name="ada").structured_content == {"balance": 120}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"mcp-session-id": "unknown"}, 404),
        ({"mcp-protocol-version": "2026-07-28"}, 400),
    ],
)
def test_requests_from_elsewhere_and_to_nowhere_are_refused(
    over_stdio: Guarded, headers: dict[str, str], status: int
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    accept = {"accept": "application/json, text/event-stream"}
    answer = httpx.post(over_stdio.url, json=body, headers=accept | headers, timeout=10)
    assert answer.status_code == status


def test_a_server_on_http_that_dies_is_one_clear_error_and_no_hang(
    over_http: Guarded, portal: BlockingPortal
) -> None:
    assert over_http.upstream is not None
    with connected(portal, over_http.url) as session:
        over_http.upstream.kill()
        over_http.upstream.wait()
        for tool in ("balance", "close"):
            with pytest.raises(MCPError, match=r"the MCP server http://.* is gone"):
                session.call(tool, name="ada")
