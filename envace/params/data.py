"""From synthesis to the split."""

from typing import Any, Literal

from pydantic import Field

from envace.params.section import Section


class ChatParams(Section):
    """How the two roles share a conversation."""

    layout: Literal["inline", "prompted"]
    """`inline` continues the chat as the tool turn; `prompted` opens a conversation for every call."""
    sections: dict[str, bool | int]
    """Sections of `prompted` that differ from `envace.chat.prompted.PromptedLayout`."""


class SynthesizeParams(Section):
    """Numbers of synthetic trajectories by kind."""

    demonstrations: int = Field(ge=1)
    """Expert solutions of demonstrated templates."""
    glimpses: int = Field(ge=0)
    """Expert solutions of practiced templates."""
    drills: int = Field(ge=0)
    """Random calls answered by a world; environment loss only."""
    memories: int = Field(ge=0)
    """Commit-once tasks solved by reading a memory, right or wrong."""
    commits: int = Field(ge=0)
    """Commit-once tasks answered by a random commit."""
    wrong_call_rate: float = Field(ge=0, le=1)
    """Chance of an injected wrong call before an expert call."""
    broken_rate: float = Field(ge=0, le=1)
    """Share of drill calls that do not fit their tool's schema."""
    noted_rate: float = Field(ge=0, le=1)
    """Share of demonstrations with a private memory in front."""
    format_only: tuple[str, ...]
    """Worlds whose drill responses are shuffled: format without knowledge."""
    held_out_per_template: int = Field(ge=1)
    """Evaluation tasks for each template of a chained world, on held-out names."""
    held_out_commits: int = Field(ge=1)
    """Evaluation tasks of each commit-once world."""
    held_out_worlds: tuple[str, ...]
    """Worlds held out whole: evaluation tasks only."""
    sources: dict[str, dict[str, Any]]
    """Further sources of `envace.synthesis.sources.SOURCES` with their options, and `count` or `weight`."""


class FilterParams(Section):
    """The filtering funnel."""

    rules: dict[str, dict[str, Any] | None]
    """Filters of `envace.filters.FILTERS` with their options; they run in the registry's order."""
    max_loss: float = Field(ge=0, le=1)
    """The stage fails when a larger share is quarantined."""


class LeakageParams(Section):
    """Train/test leakage."""

    against: tuple[str, ...]
    """Benchmarks whose test sets are compared; `worlds` is the own held-out set."""
    policy: Literal["report", "remove", "fail"]
    """What happens to a training trajectory that matches."""


class SplitParams(Section):
    """Train/dev split by task."""

    dev_share: float = Field(gt=0, lt=0.5)
    """Share of trajectories kept for the dev loss."""
