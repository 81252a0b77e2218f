"""Several processes that train one policy: roll-outs and passes are shared out, gradients are summed.

Every rank rolls out whole groups, because a baseline is a group's own; then all know all roll-outs
and decide alike. A rank normalizes its part of the loss by token counts of all ranks, so gradients
are summed, never averaged: however unevenly rows fall on ranks, the step is that of one process.
Weights are either whole on every rank (`sum_gradients` adds up) or sharded (`shard`: FSDP2 adds up).
"""

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from envace.errors import EnvaceError
from envace.models.build import resolve

T = TypeVar("T")

PATIENCE = timedelta(hours=1)
"""How long a rank waits for the others: roll-outs of unlike length keep them minutes apart."""


@dataclass(frozen=True)
class Ranks:
    """The processes that train together, seen from one of them."""

    rank: int = 0
    """Number of this process."""
    count: int = 1
    """Number of processes."""

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files."""
        return self.rank == 0

    def own(self, items: Sequence[T]) -> list[T]:
        """This rank's share of `items`, e.g. of a step's tasks; shares differ by one item at most."""
        return list(items[self.rank :: self.count])

    def block(self, items: Sequence[T]) -> list[T]:
        """This rank's share as one run of neighbors, e.g. of rows, whose neighbors share a prompt."""
        start, stop = (len(items) * rank // self.count for rank in (self.rank, self.rank + 1))
        return list(items[start:stop])

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sum over all ranks; every rank must call it, equally often, with equal shapes on its device."""
        if self.count == 1:
            return tensor
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    def gather(self, item: T) -> list[T]:
        """The items of all ranks in order, on every rank; all must call it. Items are pickled."""
        if self.count == 1:
            return [item]
        items: list[Any] = [None] * self.count
        dist.all_gather_object(items, item)
        return items

    def wait(self) -> None:
        """Return once all ranks have come here."""
        if self.count > 1:
            dist.barrier()


ALONE = Ranks()
"""The only process."""


@contextmanager
def together(device: str) -> Iterator[Ranks]:
    """Join the processes that `accelerate launch` started; without it, be alone.

    Args:
        device: `scale.device`.

    A rank that fails says why and leaves at once. Ordinary shutdown could wait: for the group,
    whose other members wait for this one, or for an engine's threads. The launcher sees the exit
    and ends the other ranks.

    """
    if "WORLD_SIZE" not in os.environ:
        yield Ranks()
        return
    from accelerate import PartialState

    state = PartialState(cpu=resolve(device).type == "cpu", timeout=PATIENCE)
    try:
        yield Ranks(state.process_index, state.num_processes)
    except BaseException as error:
        if isinstance(error, EnvaceError):
            print(f"error: rank {state.process_index}: {error}", file=sys.stderr)
        else:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    state.destroy_process_group()


def shard(model: Any, bfloat16: bool = False) -> Any:
    """Shard a policy over all ranks with FSDP2, in place: each layer is gathered when it runs.

    Ranks must run the same number of forward passes; optimizers must be made afterwards.

    Args:
        model: A transformers causal LM, whole on every rank, equal on all.
        bfloat16: Gather and compute in bfloat16; shards, gradients and their sums stay float32.
    """
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if bfloat16 else MixedPrecisionPolicy()
    for layer in model.get_decoder().layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return model


def sum_gradients(model: Any, ranks: Ranks) -> None:
    """Sum the gradients of a policy that is whole on every rank; a sharded one has done so itself.

    Ranks that ran equally many passes have the same gradients, be they zero. One that no rank has
    stays absent: an optimizer would take a zero for a reason to move by its momentum.
    """
    if ranks.count == 1 or isinstance(model, FSDPModule):
        return
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)


def clip_gradients(model: Any, limit: float = 1.0) -> float:
    """Scale gradients down to the norm `limit`; returns the norm they had, over all shards."""
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)


def agree(step: int, ranks: Ranks, device: torch.device | str) -> int:
    """The step at which all ranks resume, each from a resume point of its own.

    Args:
        step: Finished steps of this rank's resume point.
        ranks: All processes.
        device: Where the model is.

    Raises:
        EnvaceError: They differ; a kill came while some had written and others had not.
    """
    steps = torch.zeros(ranks.count, device=device)
    steps[ranks.rank] = step
    found = ranks.sum(steps).tolist()
    if len(set(found)) > 1:
        raise EnvaceError(f"ranks would resume at steps {found}", "remove this stage's files in .scratch")
    return step


def full_state(model: Any) -> dict[str, Any]:
    """Whole weights to save; all ranks must call it.

    Of shards, they are in main memory on the first rank, and the others get nothing.
    """
    sharded = isinstance(model, FSDPModule)
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_model_state_dict(model, options=whole) if sharded else model.state_dict()
