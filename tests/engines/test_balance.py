"""Which endpoint gets the next request, on a clock that only the test moves."""

from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import Clock

from envace.engines.balance import Backoff, Balancer, ServerFailure


def fail(balancer: Balancer, retry_after: float = 0.0) -> tuple[str, float]:
    with pytest.raises(ServerFailure), balancer.lend() as lent:
        raise ServerFailure("broken", retry_after)
    return lent


def use(balancer: Balancer) -> tuple[str, float]:
    with balancer.lend() as lent:
        return lent


SLACK = 1e-9
"""Rounding of times that were added and subtracted."""


def use_wait(balancer: Balancer) -> float:
    """How long a request would have to wait, found out by one that is no success."""
    with pytest.raises(KeyError), balancer.lend() as (_, wait):
        raise KeyError
    return wait


def test_the_least_busy_gets_the_next_request_and_idle_ones_take_turns() -> None:
    balancer = Balancer(["a", "b", "c"], Backoff(), Clock())
    with ExitStack() as stack:
        held = [stack.enter_context(balancer.lend())[0] for _ in range(6)]
        assert sorted(held) == ["a", "a", "b", "b", "c", "c"]
    assert sorted(use(balancer)[0] for _ in range(6)) == ["a", "a", "b", "b", "c", "c"]
    assert [endpoint.in_flight for endpoint in balancer.endpoints] == [0, 0, 0]


def test_a_failing_endpoint_rests_longer_each_time_until_it_succeeds() -> None:
    clock = Clock()
    balancer = Balancer(["only"], Backoff(first=1.0, longest=5.0), clock)
    for due in (1.0, 2.0, 4.0, 5.0, 5.0):
        fail(balancer)
        rest = use_wait(balancer)
        assert due / 2 - SLACK <= rest <= due + SLACK
        clock.sleep(rest)
    use(balancer)
    assert balancer.endpoints[0].failures == 0
    fail(balancer)
    assert 0.5 - SLACK <= use_wait(balancer) <= 1.0 + SLACK  # as after a first failure


def test_the_others_serve_while_one_rests_and_a_burst_is_one_failure() -> None:
    clock = Clock()
    balancer = Balancer(["bad", "good"], Backoff(first=10.0), clock)
    burst = [balancer.lend() for _ in range(6)]
    assert [lent.__enter__()[0] for lent in burst] == ["bad", "good"] * 3
    broken = ServerFailure("all three come back broken at once")
    for bad, good in zip(burst[::2], burst[1::2], strict=True):
        assert not bad.__exit__(ServerFailure, broken, None)
        good.__exit__(None, None, None)
    assert balancer.endpoints[0].failures == 1
    assert [use(balancer) for _ in range(3)] == [("good", 0.0)] * 3
    clock.now = 10.0
    assert {use(balancer)[0] for _ in range(8)} == {"bad", "good"}


def test_when_all_rest_the_first_one_back_is_waited_for() -> None:
    balancer = Balancer(["a", "b"], Backoff(first=1.0, longest=60.0), Clock())
    assert fail(balancer, retry_after=30)[0] == "a"
    assert fail(balancer, retry_after=7)[0] == "b"
    assert use(balancer) == ("b", pytest.approx(7.0))


def test_an_exception_that_is_no_servers_fault_gives_the_endpoint_back_unharmed() -> None:
    balancer = Balancer(["a"], Backoff(), Clock())
    with pytest.raises(KeyError), balancer.lend():
        raise KeyError("ours")
    assert (balancer.endpoints[0].in_flight, balancer.endpoints[0].failures) == (0, 0)
    assert use(balancer) == ("a", 0.0)


@given(st.integers(1, 10**6), st.floats(0, 10**6), st.floats(0, 1, exclude_max=True))
def test_no_rest_is_longer_than_the_longest(failures: int, retry_after: float, draw: float) -> None:
    rest = Backoff(0.5, 30.0).seconds(failures, retry_after, draw)
    assert 0.25 <= rest <= 30.0
    assert rest >= min(30.0, retry_after)


def test_rests_double_and_jitter_takes_at_most_half() -> None:
    backoff = Backoff(0.5, 30.0)
    assert [backoff.seconds(n, 0.0, 0.0) for n in (1, 2, 3)] == [0.25, 0.5, 1.0]
    assert backoff.seconds(3, 0.0, 0.999) == pytest.approx(2.0, abs=0.01)
