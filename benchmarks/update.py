"""Policy updates: trained tokens a second, and what one row a trajectory saves.

    python -m benchmarks.update

`update_vs_trl`: the same groups of eight rows of one call each through this project's update, which
runs a group's prompt once, and through TRL's GRPOTrainer, both in what `products` says.
`update_merged_vs_row_per_call`: trajectories of eight calls as one row each and as one row a turn,
the way of trainers that know one prompt and one completion. Runs alternate, so that a busy machine
slows both alike; a figure is the median of the ratios.
"""

import copy
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import torch

from envace.chat import CompactTemplate, TokenRole, TokenStream
from envace.models.build import build
from envace.models.precision import products
from envace.rl.rows import ACT, ENV, PolicyRow
from envace.rl.settings import UpdateSettings
from envace.rl.update import backward
from envace.rollout.episode import Row
from envace.synthesis.corpus import tokenizer_corpus
from envace.trajectory import Message
from envace.worlds.tasks import pose, solve

ROUNDS, STEPS = 5, 2
TASKS, GROUP = 8, 8
TRL_ROWS = 16
"""Rows of one of TRL's forward passes; between 8 and 64 it makes no difference."""
GOALS = {"update_vs_trl": 1.5, "update_merged_vs_row_per_call": 3.0,
         "forwarded_tokens_row_per_call_vs_merged": 4.0}  # fmt: skip


def main() -> None:
    """Measure, print one RESULT line a figure, write JSON."""
    torch.set_num_threads(1)  # threads that wait for a busy core would measure the other load
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, _ = build(
            tokenizer_corpus(1), vocabulary=512, hidden=128, layers=4, context=4096, seed=0, folder=folder
        )
        template = CompactTemplate(folder)
        short = [trajectory(template, seed // GROUP, calls=1) for seed in range(TASKS * GROUP)]
        long = [trajectory(template, seed, calls=8) for seed in range(TASKS)]
        apart = [turn for row in long for turn in row_per_turn(row)]
        values = {
            "update_vs_trl": against_trl(model, folder, short),
            "update_merged_vs_row_per_call": ratio(updates(model, long), updates(model, apart)),
            "forwarded_tokens_row_per_call_vs_merged": forwarded(apart) / forwarded(long),
        }
    for figure, value in values.items():
        print(f"RESULT name={figure} value={value:.2f} unit=x baseline={GOALS[figure]}")
    results = [{"name": name, "value": value, "baseline": GOALS[name], "unit": "x"}
               for name, value in values.items()]  # fmt: skip
    Path("benchmarks/update.json").write_text(json.dumps(results) + "\n")


def trajectory(template: CompactTemplate, seed: int, calls: int) -> Row:
    """A conversation with this many calls, each answered by the policy's environment role."""
    task = pose("agenda", "when", seed, "train")
    steps, answer, _ = solve(task)
    turns: list[Message] = []
    for at in range(calls):
        step = steps[at % len(steps)]
        turns.append(Message(role="assistant", tool_calls=(step.call,)))
        turns.append(Message(role="tool", name=step.call.name, content=step.response))
    turns.append(Message(role="assistant", content=answer))
    stream = template.render([*task.messages, *turns], task.tools)
    return Row(stream, (-1.0,) * len(stream))


def row_per_turn(row: Row) -> list[Row]:
    """The same trajectory as one row a turn, with everything before it as context."""
    rows, stop = [], 0
    for role, run in groupby(row.stream.roles):
        start, stop = stop, stop + len(list(run))
        if role != TokenRole.CONTEXT:
            roles = [int(TokenRole.CONTEXT)] * start + [role] * (stop - start)
            rows.append(Row(TokenStream(row.stream.ids[:stop], roles), row.logprobs[:stop]))
    return rows


def updates(model: Any, rows: Sequence[Row]) -> Callable[[], float]:
    """A run of this project's update on these rows; returns seconds a step."""
    settings = UpdateSettings(environment="grpo")
    policy = [
        PolicyRow(row, dict.fromkeys((ACT, ENV), 1.0 if at % 2 else -1.0)) for at, row in enumerate(rows)
    ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)

    def run() -> float:
        model.train()
        begun = time.perf_counter()
        for _ in range(STEPS):
            backward(model, policy, settings)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return (time.perf_counter() - begun) / STEPS

    return run


def against_trl(model: Any, folder: Path, rows: Sequence[Row]) -> float:
    """How many times faster than TRL; both train every sampled token of the same rows."""
    from transformers import PrinterCallback, TrainerCallback

    from benchmarks.trl_replay import replay_trainer

    class Clock(TrainerCallback):
        """Times steps: padding, rewards, forward, backward, clipping and the optimizer."""

        seconds = 0.0

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.begun = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.seconds += time.perf_counter() - self.begun

    def theirs() -> float:
        groups = [[(row, float(at % 2)) for at, row in enumerate(rows[start : start + GROUP])]
                  for start in range(0, len(rows), GROUP)]  # fmt: skip
        clock = Clock()
        trainer = replay_trainer(
            copy.deepcopy(model), folder, groups, folder / "trl", frozenset({TokenRole.ACT, TokenRole.ENV}),
            bf16=products(True, "cpu") is torch.bfloat16, learning_rate=0.0, max_steps=STEPS,
            per_device_train_batch_size=TRL_ROWS, gradient_accumulation_steps=len(rows) // TRL_ROWS,
        )  # fmt: skip
        trainer.add_callback(clock)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return clock.seconds / STEPS

    return ratio(updates(model, rows), theirs)


def ratio(ours: Callable[[], float], theirs: Callable[[], float]) -> float:
    """Median over alternating runs of their time over ours; a first run of each warms up."""
    ours(), theirs()
    return median(theirs() / ours() for _ in range(ROUNDS))


def forwarded(rows: Sequence[Row]) -> int:
    """Tokens that go through the model, padding left out."""
    return sum(len(row.stream) for row in rows)


if __name__ == "__main__":
    main()
