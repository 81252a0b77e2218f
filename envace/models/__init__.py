"""Models: built from scratch, or loaded with what their family needs."""
