"""EnvACE: one language model that acts and rehearses its environment (arXiv 2608.06197).

Importing this package imports neither torch nor transformers; the rooms that need
them (`engines`, `rl`) import them inside.
"""

__version__ = "0.1.0"
