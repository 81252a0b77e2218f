"""DVC stages: thin modules that read parameters and inputs, call `envace`, write outputs."""
