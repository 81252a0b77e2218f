"""The guard: calls that cannot be taken back are rehearsed before they are let through."""
