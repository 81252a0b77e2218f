"""Records and their files: the contract between all stages."""

from envace.trajectory.jsonl import (
    Line,
    Quarantined,
    iter_records,
    iter_tolerant,
    read_trajectories,
    write_records,
)
from envace.trajectory.records import (
    SCHEMA_VERSION,
    ChecklistItem,
    Lineage,
    Message,
    Outcome,
    Task,
    Tool,
    ToolCall,
    Trajectory,
    compact,
)

__all__ = [
    "SCHEMA_VERSION",
    "ChecklistItem",
    "Line",
    "Lineage",
    "Message",
    "Outcome",
    "Quarantined",
    "Task",
    "Tool",
    "ToolCall",
    "Trajectory",
    "compact",
    "iter_records",
    "iter_tolerant",
    "read_trajectories",
    "write_records",
]
