"""Engines: where sampled tokens come from."""

from envace.engines.base import Completion, Engine, Sampling

__all__ = ["Completion", "Engine", "Sampling"]
