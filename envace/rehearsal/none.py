"""No rehearsal: act at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envace.rehearsal.base import Conversation, Policy, Preparation, Settings


@dataclass(frozen=True)
class NoRehearsal:
    """The baseline; its budget means nothing."""

    settings: Settings
    every_turn: ClassVar[bool] = False

    def prepare(self, policy: Policy, conversations: Sequence[Conversation], seed: int) -> list[Preparation]:
        """Prepare nothing; see `Strategy`."""
        return [Preparation() for _ in conversations]
