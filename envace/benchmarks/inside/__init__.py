"""Scripts that run inside a harness's own Python: standard library and the harness, never `envace`."""
