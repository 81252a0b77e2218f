"""In which numbers matrix products run: bfloat16 where the device multiplies them, float32 elsewhere.

A processor without such instructions imitates them: with AVX2 alone a step of training took fifteen
times as long as in float32.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16")
"""What products of bfloat16 are called among the capabilities of a processor: x86 twice, ARM."""


def products(wanted: bool, device: torch.device | str) -> torch.dtype:
    """What matrix products run in.

    Args:
        wanted: Whether bfloat16 is.
        device: Where they run.
    """
    kind = torch.device(device).type
    fast = kind != "cpu" or any(map(torch.cpu.get_capabilities().get, INSTRUCTIONS))
    return torch.bfloat16 if wanted and fast else torch.float32


class Float32(TorchFunctionMode):
    """In its block `Tensor.bfloat16` gives float32, for code of others that asks for bfloat16 by name."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a function of torch, or what stands for it."""
        if func is torch.Tensor.bfloat16:
            # A copy, as a conversion is one: the caller may write to it.
            return args[0].to(torch.float32, copy=True)
        return func(*args, **(kwargs or {}))
