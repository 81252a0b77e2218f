"""`envace serve --guard`: the guard in front of a policy that is served, which rehearses its own calls."""

from pathlib import Path

from envace.errors import EnvaceError
from envace.guard.backend import ConcurrentGuardedBackend
from envace.guard.config import GuardSettings, load_settings, make_guard
from envace.guard.rehearsers import PolicyRehearser, shared_engine
from envace.rehearsal.base import Policy
from envace.serve.policy_backend import PolicyBackend


def read_settings(path: Path) -> GuardSettings:
    """The configuration of a guard in front of a chat.

    Raises:
        EnvaceError: The file is absent or invalid, or names no tools.
    """
    settings = load_settings(path, GuardSettings, "--guard")
    if not settings.tools.irreversible:
        raise EnvaceError(
            f"{path}: tools.irreversible is empty, and chats do not say which tools are irreversible",
            'name them by patterns, as in "delete_*"',
        )
    return settings


def guard_policy(backend: PolicyBackend, settings: GuardSettings) -> ConcurrentGuardedBackend:
    """A served policy behind a guard.

    Args:
        backend: The policy; where the configuration names no other, its environment role predicts, in
            batches with whatever else it writes.
        settings: The configuration.

    Raises:
        EnvaceError: See `make_guard`.
    """
    rehearse = settings.rehearse
    policy = Policy(shared_engine(backend.batcher), backend.template)
    own = PolicyRehearser(policy, backend.context, rehearse.temperature, rehearse.max_tokens)
    return ConcurrentGuardedBackend(backend, make_guard(settings, own), settings.tools)
