"""Progress artifacts, fed by the lines in which a stage counts what it has done (`envace.progress`)."""

import re
from typing import cast
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact

from flows.own_server import shared_server

COUNTED = re.compile(r"(?P<label>\S.*): (?P<done>\d+)/(?P<total>[1-9]\d*), \d+ s left\s*")


class Progress:
    """The bars of one task, one for each thing it counts; none where nobody could look while it runs.

    Args:
        task: What stands in front of the key of each bar.
    """

    def __init__(self, task: str) -> None:
        self._task = task
        self._bars: dict[str, UUID] = {}
        self._watched = shared_server()

    def see(self, line: str) -> None:
        """Move the bar of a line that counts something; any other line is no matter."""
        found = COUNTED.fullmatch(line)
        if found is None or not self._watched:
            return
        label, percent = found["label"], 100 * int(found["done"]) / int(found["total"])
        try:
            if label in self._bars:
                update_progress_artifact(self._bars[label], percent)
            else:
                key = re.sub(r"[^a-z0-9]+", "-", f"{self._task} {label}".lower()).strip("-")
                bar = create_progress_artifact(percent, key, f"{self._task}: {label}")
                self._bars[label] = cast(UUID, bar)  # typed as a coroutine, too: it is one where a loop runs
        except httpx.HTTPError:
            self._watched = False  # The server is gone; the work goes on.
