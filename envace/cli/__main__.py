"""`python -m envace.cli`."""

from envace.cli import main

main()
