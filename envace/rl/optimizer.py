"""Muon on the matrices, AdamW on everything else; one learning-rate factor drives both."""

from contextlib import nullcontext
from typing import Any

import torch

from envace.models.precision import Float32, products


class MuonAdamW:
    """Two optimizers that step together.

    Muon (Jordan et al. 2024) orthogonalizes the momentum of hidden matrices; it learned
    the warm-up about twice as fast as AdamW alone at this scale. Embeddings, norms and
    the tied head stay with AdamW.
    """

    def __init__(self, model: torch.nn.Module, matrices: float, rest: float) -> None:
        """Split the parameters of a model.

        Args:
            model: The model to train.
            matrices: Learning rate of Muon.
            rest: Learning rate of AdamW.
        """
        named = list(model.named_parameters())
        hidden = [p for name, p in named if p.ndim == 2 and "embed" not in name and "lm_head" not in name]
        chosen = {id(p) for p in hidden}
        other = [p for _, p in named if id(p) not in chosen]
        self.parts: tuple[torch.optim.Optimizer, ...] = (
            torch.optim.Muon(hidden, lr=matrices, weight_decay=0.01, momentum=0.95, nesterov=True),
            torch.optim.AdamW(other, lr=rest, betas=(0.9, 0.98), weight_decay=0.0),
        )
        native = products(True, hidden[0].device) is torch.bfloat16
        self.products = nullcontext() if native else Float32()
        self.rates = [part.param_groups[0]["lr"] for part in self.parts]

    def step(self, factor: float) -> None:
        """Take one step with every learning rate multiplied by `factor`, then clear gradients."""
        for part, rate in zip(self.parts, self.rates, strict=True):
            part.param_groups[0]["lr"] = rate * factor
            with self.products:
                part.step()
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """State of both parts."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of both parts."""
        for part, saved in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(saved)


def warmup_then_linear(step: int, steps: int, warmup: int, hold: float, floor: float) -> float:
    """Learning-rate factor: linear rise, constant until `hold` of the run, linear fall to `floor`."""
    rise = min(1.0, (step + 1) / warmup)
    fall = min(1.0, max(floor, (1 - step / steps) / (1 - hold)))
    return rise * fall
