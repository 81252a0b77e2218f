"""Policies for tests of the server: one whose tokens are written by a script, and real ones."""

from collections.abc import Callable
from typing import Any

from openai import OpenAI

from envace.chat import CompactTemplate
from envace.serve.policy_backend import PolicyBackend

FIND = {
    "type": "function",
    "function": {
        "name": "find",
        "parameters": {"type": "object", "properties": {"item": {"type": "string"}}},
    },
}
LIST = {"type": "function", "function": {"name": "list_all"}}
HELLO = [{"role": "user", "content": "hello"}]


def backend(template: CompactTemplate, engine: Any, **options: Any) -> PolicyBackend:
    return PolicyBackend("p", engine, template, 4096, 3, 64, **options)


def client(url: str, **options: Any) -> OpenAI:
    return OpenAI(base_url=url, api_key="none", max_retries=0, timeout=20, **options)


def says(template: CompactTemplate, text: str) -> list[int]:
    """An answer."""
    return [*template.encode(text), min(template.end_ids)]


def calls(template: CompactTemplate, *texts: str) -> list[int]:
    """Calls, one a line."""
    return [*template.encode("\n".join(texts)), template.call_end]


Script = Callable[[list[int], int], list[int]]
