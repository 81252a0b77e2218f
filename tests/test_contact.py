"""The counter at the environment's boundary."""

import threading

from envace.contact import counted
from envace.trajectory import ToolCall
from envace.worlds.tasks import pose, rebuild

TASK = pose("courier", "ship", 0, "train")


def call_once() -> None:
    rebuild(TASK)[0].call(ToolCall(name="nothing"))


def test_every_executed_call_is_counted_refused_ones_too_and_only_inside() -> None:
    call_once()
    with counted() as outer:
        call_once()
        with counted() as inner:
            call_once()
        call_once()
    call_once()
    assert (outer.calls, inner.calls) == (3, 1)


def test_other_threads_are_not_counted() -> None:
    with counted() as contact:
        other = threading.Thread(target=call_once)
        other.start()
        other.join()
    assert contact.calls == 0


def test_a_block_that_fails_stops_counting() -> None:
    try:
        with counted() as contact:
            raise ValueError
    except ValueError:
        call_once()
    assert contact.calls == 0
