"""What is left of a run: its history and its folder. Knows no data, no loss and no privacy formula."""

from fedspd.results.folder import RunFolder, cache_folder, environment, to_json, write_run
from fedspd.results.history import COLUMNS, History

__all__ = ["COLUMNS", "History", "RunFolder", "cache_folder", "environment", "to_json", "write_run"]
