"""Observation: cross-entropy of the environment role on responses that were really given.

The verdict on a finished episode reveals the true responses to its committed calls. They
are few, so they are kept and replayed, in proportion to how badly the policy predicted
them when it last saw them (prioritized replay, Schaul et al. 2016). A share of every batch
are logged trajectories of the warm-up, both roles, as an anchor: learning new rules fast
would otherwise undo what was learned before (PPO-ptx, Ouyang et al. 2022).
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
UNSEEN = 1.0
"""Surprise expected of a transcript whose world has revealed nothing yet, in nats."""
KNOWN = 0.05
"""Priority of a transcript that does not surprise at all, in nats: it comes up at times nevertheless."""


@dataclass(frozen=True)
class Transcript:
    """True responses to committed calls of one task."""

    world: str
    """Where it happened."""
    stream: TokenStream
    """Rendered without a memory; its calls are context, only responses carry loss."""


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
        self.surprise: list[float] = []
        self.trained_tokens = 0

    def add(self, transcripts: Sequence[Transcript]) -> None:
        """Remember what was revealed; it is expected to surprise as its world does on average."""
        usual = mean_by_world(self.replay, self.surprise)
        self.surprise = [*self.surprise, *(usual.get(t.world, UNSEEN) for t in transcripts)][-LIMIT:]
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
        drawn: list[int] = []
        if self.replay:
            weights = [surprise + KNOWN for surprise in self.surprise]
            drawn = rng.choices(range(len(self.replay)), weights, k=self.rows - len(anchors))
        streams = [*anchors, *(self.replay[index].stream for index in drawn)]
        context = int(TokenRole.CONTEXT)
        total = sum(len(stream) - stream.roles.count(context) for stream in streams)
        if total == 0:
            return 0.0
        self.trained_tokens += total
        device = self.model.device
        losses = torch.zeros(len(streams), dtype=torch.float64, device=device)
        own = self.ranks.own(range(len(streams)))
        for chosen in even_passes([len(streams[at]) for at in own], token_budget, self.ranks.sum, device):
            places = [own[index] for index in chosen]
            batch = collate([streams[at] for at in places] or [NOTHING], device)
            selected = batch.roles[:, 1:] != context
            logprobs, _ = token_logprobs(self.model, batch, selected)
            loss = cross_entropy(logprobs, torch.ones_like(logprobs)) * (logprobs.numel() / total)
            loss.backward()
            if places:
                rows = torch.tensor(places, device=device)[selected.nonzero()[:, 0]]
                losses.index_add_(0, rows, -logprobs.detach().double())
        losses = self.ranks.sum(losses)
        for index, loss in zip(drawn, losses[len(anchors) :].tolist(), strict=True):
            self.surprise[index] = loss
        sum_gradients(self.model, self.ranks)
        clip_gradients(self.model)
        self.optimizer.step(factor)
        return float(losses.sum()) / total

    def state_dict(self) -> dict[str, Any]:
        """Optimizer and replay."""
        replay = [(t.world, t.stream.ids, t.stream.roles) for t in self.replay]
        return {"optimizer": self.optimizer.state_dict(), "replay": replay, "surprise": self.surprise}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore optimizer and replay."""
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self.replay = [
            Transcript(world, TokenStream(ids, roles)) for world, ids, roles in state_dict["replay"]
        ]
        self.surprise = list(state_dict["surprise"])


def mean_by_world(replay: Sequence[Transcript], surprise: Sequence[float]) -> dict[str, float]:
    """Mean surprise of the transcripts of each world, in nats."""
    count = Counter(transcript.world for transcript in replay)
    means: dict[str, float] = dict.fromkeys(count, 0.0)
    for transcript, nats in zip(replay, surprise, strict=True):
        means[transcript.world] += nats / count[transcript.world]
    return means
