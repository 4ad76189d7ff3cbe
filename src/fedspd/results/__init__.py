"""What is left of a run: summary, history, folder, cache. Knows no data, no loss and no privacy formula."""

from fedspd.results.cache import Cache, cache_folder, digest, own_folder
from fedspd.results.files import OWNER_ONLY, OWNER_ONLY_FOLDER, NewFile, append_line, own_file, to_json, write_whole
from fedspd.results.history import COLUMNS, History
from fedspd.results.mean import Mean, mean_over_seeds
from fedspd.results.run_folder import RunFolder, RunRecord, environment, read_model, read_run, read_summary, write_run
from fedspd.results.summary import ABOUT, SITES, Condition, Convergence, Number, Summary, from_dict, words

__all__ = [
    "ABOUT",
    "COLUMNS",
    "OWNER_ONLY",
    "OWNER_ONLY_FOLDER",
    "SITES",
    "Cache",
    "Condition",
    "Convergence",
    "History",
    "Mean",
    "NewFile",
    "Number",
    "RunFolder",
    "RunRecord",
    "Summary",
    "append_line",
    "cache_folder",
    "digest",
    "environment",
    "from_dict",
    "mean_over_seeds",
    "own_file",
    "own_folder",
    "read_model",
    "read_run",
    "read_summary",
    "to_json",
    "words",
    "write_run",
    "write_whole",
]
