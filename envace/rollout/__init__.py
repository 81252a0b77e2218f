"""Roll-outs: the act/respond loop, answered by the policy itself or by a world."""
