"""The hook: what it is sent, and that its failures stay out of the way and keep its address."""

import logging

import pytest
from fastapi.responses import JSONResponse
from scripted_server import dead_url, serving

from flows.notify import VARIABLE, notify

ROWS = [{"benchmark": "bfcl_v4", "change": -0.25}]


def test_the_hook_gets_a_line_and_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda *_: "ok") as seen:
        monkeypatch.setenv(VARIABLE, f"{seen.url}/chat/completions")
        assert notify("it got worse", ROWS, logging.getLogger())
    assert seen.bodies == [{"text": "it got worse", "rows": ROWS}]


def test_without_an_address_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert not notify("it got worse", ROWS, logging.getLogger())


@pytest.mark.parametrize("kind", ["dead", "refusing", "nonsense"])
def test_a_hook_that_fails_is_a_warning_without_its_address(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(lambda *_: JSONResponse({}, 403)) as seen:
        addresses = {
            "dead": f"{dead_url()}/s3cret",
            "refusing": f"{seen.url}/chat/completions?s3cret",
            "nonsense": "http://[s3cret",
        }
        monkeypatch.setenv(VARIABLE, addresses[kind])
        assert not notify("it got worse", ROWS, logging.getLogger())
    assert VARIABLE in caplog.text and "s3cret" not in caplog.text
