"""The numbers of the EnvACE paper, for a table of their own: nothing here is comparable with a local run.

Source: arXiv 2608.06197, main table and test-time scaling table.
"""

from typing import NamedTuple

SOURCE = "EnvACE, arXiv 2608.06197"
WARNING = "Not comparable: other model scale, other protocol."


class Published(NamedTuple):
    """A row of the main table; percent, None where the paper gives no number."""

    method: str
    """Name of the model or method."""
    bfcl_v4: float | None
    """BFCL-v4 overall."""
    tau2: float
    """τ²-bench."""
    vita: float
    """VitaBench."""
    overall: float | None
    """Plain mean of the three."""


class Scaling(NamedTuple):
    """A row of the test-time scaling table, EnvACE-8B; percent."""

    setting: str
    """Strategy and who rehearses."""
    tau2: float
    """τ²-bench."""
    bfcl_multi_turn: float
    """BFCL-v4, multi-turn categories."""
    overall: float
    """Mean of the two."""
    gain: float
    """Points of it over no rehearsal, as printed."""


MAIN = (
    Published("Qwen3-1.7B", 30.89, 10.4, 1.9, 14.41),
    Published("Qwen3-4B", 41.80, 27.9, 9.6, 26.43),
    Published("Qwen3-8B", 44.04, 30.0, 11.4, 28.48),
    Published("Simulator-8B", 19.78, 38.5, 1.8, 20.03),
    Published("TOUCAN-7B", 35.33, 22.4, 2.8, 20.18),
    Published("AWM-8B", 44.29, 31.2, 10.2, 28.56),
    Published("AWM-14B", 47.32, 30.7, 19.6, 32.54),
    Published("EnvScaler-8B", 47.07, 32.9, 15.8, 31.92),
    Published("ScaleEnv-8B", None, 38.5, 15.0, None),
    Published("EnvACE-1.7B", 31.81, 15.3, 3.2, 16.77),
    Published("EnvACE-8B", 46.04, 36.7, 16.0, 32.91),
)

TEST_TIME = (
    Scaling("none", 31.4, 41.9, 36.7, 0.0),
    Scaling("parallel, base policy", 32.2, 41.4, 36.8, 0.1),
    Scaling("parallel, EnvACE rehearsal", 38.0, 43.9, 40.9, 4.2),
    Scaling("sequential, base policy", 31.0, 38.8, 34.9, -1.8),
    Scaling("sequential, EnvACE rehearsal", 34.8, 42.3, 38.5, 2.4),
)

CAVEATS = (
    "The main table gives EnvACE-8B 36.7 on τ²-bench, the test-time table 31.4; user simulator, number of "
    "trials and weighting of domains are unpublished.",
    "The gain of +2.4 for sequential EnvACE rehearsal is as printed; the columns beside it give +1.8.",
)
