"""`envace serve`: a policy in this process, or another server, behind our endpoint."""

import argparse
import os

from envace.errors import EnvaceError
from envace.heap import share_arenas
from envace.options import parse_options
from envace.serve.limits import Limits
from envace.serve.runner import serve_forever
from envace.serve.service import Service
from envace.serve.upstream import UPSTREAM_KEY_VARIABLE, UpstreamService


def serve(arguments: argparse.Namespace) -> None:
    """Serve what the command line names until SIGTERM or SIGINT.

    Raises:
        EnvaceError: It names nothing, or too much, or a limit is below its least, or the guard's
            configuration is not valid.
    """
    if (arguments.model is None) == (arguments.upstream is None):
        raise EnvaceError("what to serve?", "name a policy's folder, or give --upstream URL")
    if arguments.running < 1 or arguments.timeout <= 0 or min(arguments.waiting, arguments.per_minute) < 0:
        raise EnvaceError("a limit below its least", "--running from 1, --timeout above 0, the others from 0")
    share_arenas()
    limits = Limits(
        seconds=arguments.timeout,
        running=arguments.running,
        waiting=arguments.waiting,
        per_minute=arguments.per_minute,
    )
    from envace.guard.serving import guard_policy, guard_upstream, read_settings

    settings = read_settings(arguments.guard) if arguments.guard else None
    if arguments.upstream:
        key = UPSTREAM_KEY_VARIABLE if os.environ.get(UPSTREAM_KEY_VARIABLE) else ""
        service: Service = UpstreamService(arguments.upstream, key, arguments.branches)
        if settings:
            service = guard_upstream(service, settings, arguments.running)
        serve_forever(service, arguments.host, arguments.port, limits)
        return
    from envace.serve.policy_backend import load_backend

    policy = load_backend(
        arguments.model,
        arguments.branches,
        arguments.max_tokens,
        sampler=arguments.engine,
        **parse_options(arguments.options),
    )
    backend = guard_policy(policy, settings) if settings else policy
    print(f"models: {', '.join(backend.models())}", flush=True)
    serve_forever(backend, arguments.host, arguments.port, limits)
