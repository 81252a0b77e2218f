"""A word to whoever watches: a POST to the address in `ENVACE_WEBHOOK`, in the form chat services take."""

import logging
import os
from collections.abc import Sequence
from typing import Any

import httpx

VARIABLE = "ENVACE_WEBHOOK"
"""Environment variable with the address; it is a secret, since whoever knows it can write there."""
SECONDS = 10.0
"""Longest wait for it."""


def notify(
    text: str, rows: Sequence[dict[str, Any]], logger: "logging.Logger | logging.LoggerAdapter[Any]"
) -> bool:
    """Send `{"text": …, "rows": …}`; whether it arrived. A hook that fails is logged and nothing else.

    Args:
        text: One line for people.
        rows: The numbers.
        logger: Hears of failures; the address is kept out of them.
    """
    address = os.environ.get(VARIABLE, "").strip()
    if not address:
        return False
    try:
        httpx.post(address, json={"text": text, "rows": list(rows)}, timeout=SECONDS).raise_for_status()
    except httpx.HTTPStatusError as error:
        logger.warning("%s: the hook answered %d", VARIABLE, error.response.status_code)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        logger.warning("%s: the hook cannot be reached: %s", VARIABLE, type(error).__name__)
    else:
        return True
    return False
