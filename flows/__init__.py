"""Prefect flows: they order and watch the work, DVC and envace do it.

Prefect reads its settings when it is first imported, so this package, which is imported
before any flow, sets the defaults. Whatever the environment already says wins.
"""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
"""Root of the repository these flows belong to."""

DEFAULTS = {
    "PREFECT_HOME": str(CHECKOUT / ".prefect"),
    # Nothing is reported to anyone: Prefect needs both of its switches.
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DVC_NO_ANALYTICS": "1",
    # Leases in memory die with the server, and their slots would stay taken for good.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    # Whoever waits for a place asks again this soon, however long the place was held before.
    "PREFECT_SERVER_CONCURRENCY_MAXIMUM_CONCURRENCY_SLOT_WAIT_SECONDS": "5",
    # How soon a dead flow is noticed (`flows.services.SILENCE`); Prefect takes no less.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_WORKER_QUERY_SECONDS": "3",
    "PREFECT_WORKER_WEBSERVER_HOST": "127.0.0.1",
}

for _name, _value in DEFAULTS.items():
    os.environ.setdefault(_name, _value)
