"""Learning: warm-up on both roles, then role-wise GRPO."""
