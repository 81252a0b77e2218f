"""`envace serve --guard`: the guard in front of a policy, which rehearses its own calls, or of a server."""

from pathlib import Path

from envace.errors import EnvaceError
from envace.guard.backend import ConcurrentGuardedBackend, Examiner
from envace.guard.config import GuardSettings, load_settings, make_guard
from envace.guard.rehearsers import PolicyRehearser, shared_engine
from envace.guard.service import GuardedService
from envace.rehearsal.base import Policy
from envace.serve.policy_backend import PolicyBackend
from envace.serve.service import Service


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


def guard_upstream(service: Service, settings: GuardSettings, threads: int) -> GuardedService:
    """Another server behind a guard.

    Args:
        service: The way to it.
        settings: The configuration; it names who rehearses, since a chat server has no environment role.
        threads: Answers gone over at once.

    Raises:
        EnvaceError: It names nobody, or see `make_guard`.
    """
    if settings.rehearse.policy is None and settings.rehearse.endpoint is None:
        raise EnvaceError(
            "--upstream with --guard: nobody rehearses",
            "name rehearse.endpoint or rehearse.policy",
        )
    return GuardedService(service, Examiner(make_guard(settings), settings.tools), threads)
