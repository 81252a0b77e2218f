"""Imports: trajectories recorded elsewhere, in the formats they are published in."""

from envace.imports.importing import FORMATS, Convert, ImportCounts, import_files
from envace.imports.schema import REPAIRS, normalize, original_name

__all__ = ["FORMATS", "REPAIRS", "Convert", "ImportCounts", "import_files", "normalize", "original_name"]
