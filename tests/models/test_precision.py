"""bfloat16 only where a device multiplies it: float32 products, and float32 in Muon, elsewhere."""

from unittest.mock import patch

import pytest
import torch

from envace.models.precision import Float32, products
from envace.rl.loss import autocast
from envace.rl.optimizer import MuonAdamW


def processor(**capabilities: bool) -> object:
    """A processor that says of itself what it can do."""
    return patch.object(torch.cpu, "get_capabilities", lambda: {"avx2": True} | capabilities)


@pytest.mark.parametrize("instructions", ["avx512_bf16", "amx_bf16", "bf16"])
def test_a_processor_with_instructions_multiplies_bfloat16(instructions: str) -> None:
    with processor(**{instructions: True}):
        assert products(True, "cpu") is torch.bfloat16
        assert products(False, "cpu") is torch.float32


def test_a_processor_without_multiplies_float32_and_a_gpu_what_is_wanted() -> None:
    with processor(avx512_f=True, avx512_bf16=False):
        assert products(True, "cpu") is torch.float32
        assert products(True, torch.device("cuda", 0)) is torch.bfloat16
        assert products(False, "cuda") is torch.float32


@pytest.mark.parametrize("native", [True, False])
def test_autocast_follows(native: bool) -> None:
    square = torch.eye(3)
    with processor(avx512_bf16=native), autocast(True):
        assert (square @ square).dtype is (torch.bfloat16 if native else torch.float32)
    with processor(avx512_bf16=native), autocast(False):
        assert (square @ square).dtype is torch.float32


def stepped(native: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Change of a matrix by one step of Muon at rate 1, and the momentum behind it."""
    layer = torch.nn.Linear(24, 16)
    torch.nn.init.zeros_(layer.weight)
    layer.weight.grad = torch.randn(16, 24, generator=torch.Generator().manual_seed(1))
    with processor(avx512_bf16=native):
        optimizer = MuonAdamW(layer, matrices=1.0, rest=1.0)
    momentum = optimizer.parts[0]
    optimizer.step(1.0)
    return layer.weight.detach(), momentum.state[layer.weight]["momentum_buffer"]


def orthogonalized(matrix: torch.Tensor) -> torch.Tensor:
    """Muon's quintic Newton–Schulz iteration in float64, by singular values instead of products."""
    left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    values = values / values.norm()
    for _ in range(5):
        values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
    return left @ values.diag() @ right


def test_muon_without_bfloat16_orthogonalizes_in_float32() -> None:
    gradient = torch.randn(16, 24, generator=torch.Generator().manual_seed(1))
    change, momentum = stepped(native=False)
    torch.testing.assert_close(change.double(), -orthogonalized(gradient), atol=1e-5, rtol=0)
    # What is orthogonalized is a copy: the momentum is 5 % of the gradient, as ever.
    torch.testing.assert_close(momentum, gradient * 0.05)
    rounded, same = stepped(native=True)
    assert 1e-4 < (rounded - change).abs().max() < 0.05
    torch.testing.assert_close(same, momentum)


def test_the_mode_copies_and_ends_with_its_block() -> None:
    one = torch.ones(2)
    with Float32():
        other = one.bfloat16()
        other += 1
        assert other.dtype is torch.float32
    assert one.tolist() == [1.0, 1.0]
    assert one.bfloat16().dtype is torch.bfloat16
