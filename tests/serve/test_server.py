"""The server over a real loopback socket."""

import json
import threading
import time

import httpx
import pytest

from envace.errors import EnvaceError
from envace.serve import ChatReply, ChatRequest, ContextTooLongError
from envace.serve.runner import is_loopback, listen, served
from envace.trajectory.records import Message, ToolCall


class RuleBackend:
    """Calls the first tool with the user's words, or echoes them; knows when it is entered twice."""

    def __init__(self) -> None:
        self.inside = 0
        self.overlap = False
        self.seen: list[ChatRequest] = []

    def models(self) -> list[str]:
        return ["rule"]

    def reply(self, request: ChatRequest) -> ChatReply:
        self.inside += 1
        self.overlap |= self.inside > 1
        self.seen.append(request)
        time.sleep(0.005)
        self.inside -= 1
        words = request.messages[-1].content
        if words == "too long":
            raise ContextTooLongError(900, 512)
        if words == "crash":
            raise RuntimeError("out of memory")
        if words == "run dry":
            next(iter(()))
        if request.tools:
            call = ToolCall(name=request.tools[0].name, arguments={"words": words})
            turns, reasons = (Message(role="assistant", tool_calls=(call,)),), ("tool_calls",)
        else:
            turns = tuple(Message(role="assistant", content=words) for _ in range(request.n))
            reasons = ("stop",) * request.n
        return ChatReply(
            messages=turns,
            finish_reasons=reasons,
            prompt_tokens=7,
            completion_tokens=3,
            rehearsal_tokens=11,
        )


@pytest.fixture(scope="module")
def backend():
    return RuleBackend()


@pytest.fixture(scope="module")
def url(backend):
    with served(backend) as base:
        yield base


def ask(url, **body):
    body = {"messages": [{"role": "user", "content": "hi"}]} | body
    return httpx.post(f"{url}/chat/completions", json=body, timeout=10)


def test_plain_answer_has_openai_shape_and_counts_rehearsal_apart(url):
    answer = ask(url, model="rule", store=False).json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "hi"}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["usage"]["completion_tokens_details"]["rehearsal_tokens"] == 11
    assert answer["usage"]["total_tokens"] == 7 + 3 + 11


def test_tool_call_arguments_travel_as_a_json_string(url):
    tool = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
    choice = ask(url, tools=[tool]).json()["choices"][0]
    call = choice["message"]["tool_calls"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert call["type"] == "function" and call["id"]
    assert json.loads(call["function"]["arguments"]) == {"words": "hi"}


def test_tool_choice_none_hides_the_tools(url):
    tool = {"type": "function", "function": {"name": "find"}}
    assert ask(url, tools=[tool], tool_choice="none").json()["choices"][0]["message"]["content"] == "hi"


def test_n_answers(url):
    assert [c["index"] for c in ask(url, n=3).json()["choices"]] == [0, 1, 2]


def test_sampling_parameters_reach_the_backend(url, backend):
    ask(url, temperature=0.25, seed=5, max_completion_tokens=9, max_tokens=99)
    last = backend.seen[-1]
    assert (last.temperature, last.seed, last.max_tokens, last.n) == (0.25, 5, 9, 1)


@pytest.mark.parametrize(
    ("body", "status", "code", "says"),
    [
        ({"tool_choice": "sometimes"}, 400, "unsupported_value", "tool_choice"),
        ({"tool_choice": "required"}, 400, None, "tools do not offer"),
        ({"top_logprobs": 2}, 400, None, "needs logprobs"),
        ({"logprobs": True}, 400, "unsupported_value", "log-probabilities"),
        ({"stop": ["a", "b", ""]}, 400, None, "stop"),
        ({"messages": []}, 400, None, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, 400, None, "role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, None, "content"),
        ({"temperature": -1}, 400, None, "temperature"),
        ({"max_tokens": 0}, 400, None, "max_tokens"),
        ({"tools": [{"type": "function"}]}, 400, None, "tools.0.function"),
        ({"model": "other"}, 404, "model_not_found", "other"),
        ({"messages": [{"role": "user", "content": "too long"}]}, 400, "context_length_exceeded", "900"),
        ({"messages": [{"role": "user", "content": "crash"}]}, 500, None, "out of memory"),
        ({"messages": [{"role": "user", "content": "run dry"}]}, 500, None, "StopIteration"),
    ],
)
def test_errors_have_openai_shape(url, body, status, code, says):
    response = ask(url, **body)
    assert response.status_code == status
    error = response.json()["error"]
    assert error["code"] == code
    assert says in error["message"] and "\n" not in error["message"]


def test_body_that_is_no_json_is_400(url):
    response = httpx.post(f"{url}/chat/completions", content=b"{nope")
    assert response.status_code == 400 and "JSON" in response.json()["error"]["message"]


def test_malformed_arguments_in_the_history_are_kept_whole(url, backend):
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{broken"}}]
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "error"},
    ]
    assert ask(url, messages=history).status_code == 200
    assert backend.seen[-1].messages[1].tool_calls[0].arguments == {"_raw": "{broken"}


def test_models_and_health(url):
    assert [m["id"] for m in httpx.get(f"{url}/models").json()["data"]] == ["rule"]
    assert httpx.get(url.removesuffix("/v1") + "/health").json() == {"status": "ok"}


def test_backend_is_never_entered_twice(url, backend):
    threads = [threading.Thread(target=ask, args=(url,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not backend.overlap


def test_key_is_asked_for_when_set(monkeypatch):
    monkeypatch.setenv("ENVACE_API_KEY", "s3cret")
    with served(RuleBackend()) as url:
        assert ask(url).status_code == 401
        assert httpx.get(f"{url}/models").status_code == 401
        assert httpx.get(url.removesuffix("/v1") + "/health").status_code == 200
        bad = httpx.get(f"{url}/models", headers={"Authorization": "Bearer s3cre"})
        good = httpx.get(f"{url}/models", headers={"Authorization": "Bearer s3cret"})
        assert (bad.status_code, good.status_code) == (401, 200)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_hosts_beyond_loopback_need_a_key(monkeypatch, host):
    monkeypatch.delenv("ENVACE_API_KEY", raising=False)
    assert not is_loopback(host)
    with pytest.raises(EnvaceError, match="ENVACE_API_KEY"), served(RuleBackend(), host=host):
        pass


def test_busy_port_is_one_clear_line():
    with listen("127.0.0.1", 0) as taken, pytest.raises(EnvaceError, match="cannot listen"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_port_is_free_again_after_the_block():
    with served(RuleBackend()) as url:
        assert ask(url).status_code == 200
    with pytest.raises(httpx.ConnectError):
        ask(url)
