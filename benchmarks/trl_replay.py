"""TRL's GRPOTrainer on recorded rows: an oracle for gradients, and what speed is measured against."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from envace.chat import TokenRole
from envace.rollout.episode import Row

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # TRL warns that `rollout_func` may change

Groups = Sequence[Sequence[tuple[Row, float]]]
"""Recorded rows with their rewards, by task; all groups are equally large."""


class ReplayTrainer(GRPOTrainer):
    """Takes the recorded log-probabilities for the old ones; TRL alone would take the current ones."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        batch = super()._generate_and_score_completions(inputs)
        return batch | {"old_per_token_logps": batch["sampling_per_token_logps"]}


def replay_trainer(
    model: Any, tokenizer: Path, groups: Groups, folder: Path, roles: frozenset[TokenRole], **options: Any
) -> GRPOTrainer:
    """A trainer whose roll-outs are the recorded rows, the same ones at every step.

    Args:
        model: Policy.
        tokenizer: Folder of its tokenizer.
        groups: Rows with rewards.
        folder: Where TRL may write.
        roles: Roles whose tokens are trained; the others are masked as the environment's.
        options: Further settings of `GRPOConfig`.
    """
    rows = [row for group in groups for row, _ in group]
    settings: dict[str, Any] = {
        "use_cpu": model.device.type == "cpu", "per_device_train_batch_size": len(rows),
        "num_generations": len(groups[0]), "max_completion_length": max(len(row.stream) for row in rows),
        "gradient_checkpointing": False, "scale_rewards": "none", "delta": 3.0, "max_steps": 1,
        "max_grad_norm": 1.0, "lr_scheduler_type": "constant", "shuffle_dataset": False,
        "report_to": "none", "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
    }  # fmt: skip
    return ReplayTrainer(
        model=model,
        reward_funcs=lambda prompts, reward, **_: reward,
        args=GRPOConfig(output_dir=str(folder), **(settings | options)),
        train_dataset=Dataset.from_dict({"prompt": [str(task) for task in range(len(groups))]}),
        processing_class=AutoTokenizer.from_pretrained(tokenizer),
        rollout_func=recorded(groups, roles),
    )


def recorded(groups: Groups, roles: frozenset[TokenRole]) -> Any:
    """A roll-out function: the k-th time a task is asked for, its k-th row."""

    def roll_out(prompts: list[str], _: Any) -> dict[str, list[Any]]:
        asked: Counter[str] = Counter()
        out: dict[str, list[Any]] = {
            name: [] for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask", "reward")
        }
        for prompt in prompts:
            group = groups[int(prompt)]
            row, reward = group[asked[prompt] % len(group)]
            asked[prompt] += 1
            begin = next(at for at, role in enumerate(row.stream.roles) if role != TokenRole.CONTEXT)
            out["prompt_ids"].append(row.stream.ids[:begin])
            out["completion_ids"].append(row.stream.ids[begin:])
            out["logprobs"].append(list(row.logprobs[begin:]))
            out["env_mask"].append([int(role in roles) for role in row.stream.roles[begin:]])
            out["reward"].append(reward)
        return out

    return roll_out
