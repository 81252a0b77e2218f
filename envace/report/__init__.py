"""Reports: what was measured, beside the paper."""
