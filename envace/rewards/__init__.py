"""Rewards: how a finished episode is judged."""
