"""The sweep over budgets, run for real on a few tasks, and its numbers by hand."""

from typing import Any

import pytest

from envace.benchmarks.base import TaskResult
from envace.benchmarks.budget import CONTROLS, REHEARSALS, Cell, cell_of, sweep
from envace.benchmarks.worlds import execute
from envace.engines.hf import HFEngine
from envace.rehearsal.base import Policy
from envace.rehearsal.strategies import STRATEGIES, strategy
from envace.report.budget import budget_table, draw_budget
from envace.worlds.tasks import pose, solve

TASKS = [pose("courier", "ship", seed, "held_out") for seed in range(2)]


def result(success: int, category: str = "a", steps: int = 1, private: int = 0) -> TaskResult:
    return TaskResult(
        id=f"{category}{success}", category=category, success=success, steps=steps, rehearsal_tokens=private,
        act_tokens=10,
    )  # fmt: skip


def test_acell_of_by_hand() -> None:
    before = [result(0), result(1), result(0, "b"), result(0, "b")]
    after = [
        result(1, private=8), result(1, private=16), result(0, "b", steps=2), result(1, "b", private=8),
    ]  # fmt: skip
    cell = cell_of("parallel", 2, after, before, 0)
    assert cell.success.mean == 0.75  # of the means 1 and 0.5
    assert (cell.gain, cell.gain_low, cell.gain_high) == (0.5, 0.0, 1.0)
    assert (cell.real_calls, cell.act_tokens, cell.private_tokens) == (1.25, 10, 8)
    baseline = cell_of("none", 0, before, before, 0)
    assert (baseline.gain, baseline.gain_low, baseline.gain_high) == (0, 0, 0)


@pytest.fixture(scope="module")
def cells(tiny: Any) -> list[Cell]:
    policy = Policy(HFEngine(tiny.model, tiny.vocabulary), tiny.template)
    return sweep(policy, TASKS, budgets=(1, 2))


def test_every_strategy_is_measured_at_every_budget(cells: list[Cell]) -> None:
    names = [("none", 0), *((name, n) for name in (*REHEARSALS, *CONTROLS) for n in (1, 2))]
    assert [(cell.strategy, cell.budget) for cell in cells] == names
    assert {name for name, _ in names} == set(STRATEGIES)
    assert all(cell.success.n == 2 for cell in cells)
    assert [cell.private_tokens > 0 for cell in cells[:3]] == [False, True, True]
    assert cells[2].private_tokens > cells[1].private_tokens


def test_real_calls_stay_those_of_acting_whatever_is_rehearsed(template: Any, scripted: Any) -> None:
    """A policy that ships the right offer does so once, under every strategy."""
    solved = [(template.render(task.messages, task.tools).ids[:-1], *solve(task)[:2]) for task in TASKS]

    def script(prompt: list[int], sample: int) -> list[int]:
        ((step,), answer) = next(
            (steps, answer) for start, steps, answer in solved if prompt[: len(start)] == start
        )
        if prompt[-1] == template.call_end:
            return template.response_ids(step.response, False)
        if template.call_end in prompt:
            return [*template.encode(answer), *template.end_ids]
        return [*template.encode(step.call.text()), template.call_end]

    for name in STRATEGIES:
        engine = scripted(script)
        results, _ = execute(Policy(engine, template), TASKS, strategy(f"{name}-2"), 0)
        assert [(r.success, r.steps) for r in results] == [(1, 1), (1, 1)], name
        assert engine.generated_tokens == sum(r.act_tokens + r.rehearsal_tokens for r in results), name


def test_the_figure_and_the_table_show_every_strategy(cells: list[Cell]) -> None:
    svg = draw_budget({"warmup": cells, "trained": cells})
    assert svg.startswith("<svg") and svg == draw_budget({"warmup": cells, "trained": cells})
    for name in (*REHEARSALS, *CONTROLS, "warmup: rehearsal", "trained: controls"):
        assert f">{name}<" in svg
    lines = budget_table(cells)
    assert len(lines) == 1 + len(cells)
    assert lines[1].split()[:3] == ["none", "0", f"{cells[0].success.mean:.3f}"]
