"""A stateful rule: only the first of identical conversations is kept."""

import hashlib
import json

from envace.filters.funnel import Rule
from envace.trajectory import Trajectory


def content_hash(trajectory: Trajectory) -> bytes:
    """A 16-byte hash of what a model would learn: tool names, turns and calls.

    Ids, authors, seeds, rewards and lineage do not count, nor do the order of keys in
    arguments or white space at the ends of a turn.
    """
    content = [
        sorted(tool.name for tool in trajectory.tools),
        [
            [
                message.role,
                message.content.strip(),
                [[call.name, call.arguments] for call in message.tool_calls],
                message.trainable,
            ]
            for message in trajectory.messages
        ],
    ]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def duplicates() -> Rule:
    """A rule that refuses a conversation it has let through before, naming the first one's id."""
    first: dict[bytes, str] = {}

    def rule(trajectory: Trajectory) -> str | None:
        key = content_hash(trajectory)
        if key in first:
            return f"same content as {first[key]}"
        first[key] = trajectory.id
        return None

    return rule
