"""How the guard reaches servers: what a command gets to see, and which key goes to a URL."""

import sys
from typing import Any

import anyio
import pytest
from fastapi.responses import JSONResponse
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest, JSONRPCResponse
from scripted_server import serving

from envace.errors import EnvaceError
from envace.guard.config import Upstream
from envace.guard.proxy import connector

TELLS_ITS_ENVIRONMENT = """
import json, os, sys
sys.stdin.readline()
print(json.dumps({"jsonrpc": "2.0", "id": 1, "result": dict(os.environ)}), flush=True)
"""


def result_of_a_request(upstream: Upstream) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        with anyio.fail_after(10):
            async with connector(upstream)() as (read, write):
                await write.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")))
                answer = (await read.receive()).message
                assert isinstance(answer, JSONRPCResponse)
                return answer.result

    return anyio.run(ask)


def test_a_command_sees_what_it_is_given_by_value_and_by_name_and_no_other_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "secret")
    monkeypatch.setenv("OTHER_TOKEN", "other")
    seen = result_of_a_request(
        Upstream(
            command=(sys.executable, "-c", TELLS_ITS_ENVIRONMENT),
            env={"SHOP": "eu"},
            pass_env=("SHOP_TOKEN",),
        )
    )
    assert (seen["SHOP"], seen["SHOP_TOKEN"]) == ("eu", "secret")
    assert "PATH" in seen and "OTHER_TOKEN" not in seen


def test_a_url_gets_the_key_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    def script(body: dict[str, Any], number: int) -> JSONResponse:
        return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "result": {"seen": body["method"]}})

    monkeypatch.setenv("SHOP_KEY", "k-123")
    with serving(script) as server:
        url = f"{server.url}/chat/completions"
        for fields in ({"key_env": "SHOP_KEY"}, {}):
            assert result_of_a_request(Upstream(url=url, **fields)) == {"seen": "ping"}
    assert server.keys == ["Bearer k-123", ""]


def test_a_key_that_is_not_set_is_said_before_anything_starts() -> None:
    with pytest.raises(EnvaceError, match="NO_SUCH_KEY is not set"):
        connector(Upstream(url="http://127.0.0.1:1/mcp", key_env="NO_SUCH_KEY"))
    with pytest.raises(EnvaceError, match="NO_SUCH_TOKEN is not set"):
        connector(Upstream(command=("true",), pass_env=("NO_SUCH_TOKEN",)))
