"""Imports: trajectories recorded elsewhere, in the formats they are published in."""

from envace.imports.importing import FORMATS, Convert, ImportCounts, import_files

__all__ = ["FORMATS", "Convert", "ImportCounts", "import_files"]
