"""Observation: cross-entropy of the environment role on responses that were really given.

The verdict on a finished episode reveals the true responses to its committed calls. They
are few, so they are kept and replayed, where they surprise most: a world is drawn in
proportion to how often its responses were predicted wrongly, and within it a wrongly
predicted transcript comes up ten times as often as another (prioritized replay, Schaul et
al. 2016). A share of every batch are logged trajectories of the warm-up, both roles, as an
anchor: learning new rules fast would otherwise undo what was learned before (PPO-ptx,
Ouyang et al. 2022).
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from envace.chat import TokenRole, TokenStream
from envace.rl.batch import collate
from envace.rl.distributed import ALONE, Ranks, clip_gradients, sum_gradients
from envace.rl.loss import cross_entropy, token_logprobs
from envace.rl.optimizer import MuonAdamW
from envace.rl.passes import NOTHING, even_passes

LIMIT = 3000
"""Transcripts kept; the oldest leave first."""
KNOWN_PRIORITY = 0.1
"""Chance of a correctly predicted transcript relative to a wrongly predicted one."""


@dataclass(frozen=True)
class Transcript:
    """True responses to committed calls of one task."""

    world: str
    """Where it happened."""
    stream: TokenStream
    """Rendered without a memory; its calls are context, only responses carry loss."""
    surprising: bool
    """A rehearsed response differed from the revealed one."""


class Observer:
    """The environment role's learner, with its own optimizer and replay."""

    def __init__(
        self,
        model: Any,
        logged: Sequence[TokenStream],
        rate: float,
        rows: int,
        share: float = 0.5,
        ranks: Ranks = ALONE,
    ) -> None:
        """Set up.

        Args:
            model: Policy; trained in place.
            logged: Warm-up streams to anchor on; may be empty.
            rate: Learning rate of Muon for the matrices; AdamW gets a fifth for the rest.
            rows: Streams of one batch.
            share: How many of them are logged, in [0, 1]; all are where nothing was revealed.
            ranks: All processes; each takes its share of a batch, which all draw alike.
        """
        self.model = model
        self.logged = logged
        self.rows = rows
        self.share = share
        self.ranks = ranks
        self.optimizer = MuonAdamW(model, matrices=rate, rest=rate / 5)
        self.replay: list[Transcript] = []
        self.trained_tokens = 0

    def add(self, transcripts: Sequence[Transcript]) -> None:
        """Remember what was revealed."""
        self.replay = [*self.replay, *transcripts][-LIMIT:]

    def learn(self, rng: random.Random, factor: float, token_budget: int) -> float:
        """Take one optimizer step on a replayed batch; returns its loss per token.

        Args:
            rng: Draws the batch.
            factor: Learning-rate factor of this step.
            token_budget: Tokens of one micro-batch, padding included.
        """
        wanted = int(self.rows * self.share) if self.replay else self.rows
        anchors = rng.sample(self.logged, min(wanted, len(self.logged)))
        drawn: list[Transcript] = []
        if self.replay:
            drawn = rng.choices(self.replay, priorities(self.replay), k=self.rows - len(anchors))
        streams = [*anchors, *(transcript.stream for transcript in drawn)]
        context = int(TokenRole.CONTEXT)
        total = sum(len(stream) - stream.roles.count(context) for stream in streams)
        if total == 0:
            return 0.0
        self.trained_tokens += total
        loss_sum, device = 0.0, self.model.device
        own = self.ranks.own(streams)
        for chosen in even_passes([len(stream) for stream in own], token_budget, self.ranks.sum, device):
            batch = collate([own[index] for index in chosen] or [NOTHING], device)
            selected = batch.roles[:, 1:] != context
            logprobs, _ = token_logprobs(self.model, batch, selected)
            loss = cross_entropy(logprobs, torch.ones_like(logprobs)) * (logprobs.numel() / total)
            loss.backward()
            loss_sum += loss.item()
        sum_gradients(self.model, self.ranks)
        clip_gradients(self.model)
        self.optimizer.step(factor)
        return float(self.ranks.sum(torch.tensor(loss_sum, dtype=torch.float64, device=device)))

    def state_dict(self) -> dict[str, Any]:
        """Optimizer and replay."""
        replay = [(t.world, t.stream.ids, t.stream.roles, t.surprising) for t in self.replay]
        return {"optimizer": self.optimizer.state_dict(), "replay": replay}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore optimizer and replay."""
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self.replay = [
            Transcript(world, TokenStream(ids, roles), surprising)
            for world, ids, roles, surprising in state_dict["replay"]
        ]


def priorities(replay: Sequence[Transcript]) -> list[float]:
    """Sampling weight of each transcript; those of a world sum to its surprise share.

    A world that never surprises keeps a small share, as a known transcript does.
    """
    own = [1.0 if transcript.surprising else KNOWN_PRIORITY for transcript in replay]
    count = Counter(transcript.world for transcript in replay)
    # Dividing by the size of the world leaves it its mean weight: its surprise share.
    return [weight / count[transcript.world] for transcript, weight in zip(replay, own, strict=True)]
