"""Quality of rehearsed outputs: a Great Expectations gate, and the collusion alarm.

`check` measures and never refuses; `gate` refuses. Great Expectations is imported only
inside functions, because it takes seconds.
"""

from envace.quality.check import QualityResult, check, gate
from envace.quality.collusion import CollusionReport, collusion
from envace.quality.first_calls import FirstCall, first_call
from envace.quality.records import RehearsedOutput, rehearsed_output
from envace.quality.suite import Thresholds

__all__ = [
    "CollusionReport",
    "FirstCall",
    "QualityResult",
    "RehearsedOutput",
    "Thresholds",
    "check",
    "collusion",
    "first_call",
    "gate",
    "rehearsed_output",
]
