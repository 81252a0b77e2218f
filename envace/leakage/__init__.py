"""Leakage: does the training data hold items of an evaluation set, where, and what to do about it."""

from envace.leakage.calls import canonical_calls
from envace.leakage.check import LeakageFiles, LeakageResult, Policy, check, check_files
from envace.leakage.methods import METHODS, Method, default_methods
from envace.leakage.records import BenchmarkRow, EvalItem, Match
from envace.leakage.search import CONTAMINATED, Leak

__all__ = [
    "CONTAMINATED",
    "METHODS",
    "BenchmarkRow",
    "EvalItem",
    "Leak",
    "LeakageFiles",
    "LeakageResult",
    "Match",
    "Method",
    "Policy",
    "canonical_calls",
    "check",
    "check_files",
    "default_methods",
]
