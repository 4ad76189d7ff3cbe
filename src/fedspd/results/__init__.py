"""What is left of a run: summary, history, folder, cache. Knows no data, no loss and no privacy formula."""

from fedspd.results.cache import Cache, cache_folder, digest, own_folder
from fedspd.results.checkpoint import Checkpoints
from fedspd.results.files import (
    BROKEN,
    OWNER_ONLY,
    OWNER_ONLY_FOLDER,
    NewFile,
    alone,
    append_line,
    own_file,
    sync_files,
    to_json,
    write_whole,
)
from fedspd.results.history import COLUMNS, History
from fedspd.results.mean import Mean, mean_over_seeds
from fedspd.results.run_folder import RunFolder, RunRecord, environment, read_model, read_run, read_summary, write_run
from fedspd.results.statement import STATEMENT, Statement, read_statement, read_statement_file, write_statement
from fedspd.results.summary import ABOUT, SITES, Condition, Convergence, Number, Summary, from_dict, words
from fedspd.results.work import WORK_FILE, Work, is_unfinished, read_work, unfinished, write_work

__all__ = [
    "ABOUT",
    "BROKEN",
    "COLUMNS",
    "OWNER_ONLY",
    "OWNER_ONLY_FOLDER",
    "SITES",
    "STATEMENT",
    "WORK_FILE",
    "Cache",
    "Checkpoints",
    "Condition",
    "Convergence",
    "History",
    "Mean",
    "NewFile",
    "Number",
    "RunFolder",
    "RunRecord",
    "Statement",
    "Summary",
    "Work",
    "alone",
    "append_line",
    "cache_folder",
    "digest",
    "environment",
    "from_dict",
    "is_unfinished",
    "mean_over_seeds",
    "own_file",
    "own_folder",
    "read_model",
    "read_run",
    "read_statement",
    "read_statement_file",
    "read_summary",
    "read_work",
    "sync_files",
    "to_json",
    "unfinished",
    "words",
    "write_run",
    "write_statement",
    "write_whole",
    "write_work",
]
