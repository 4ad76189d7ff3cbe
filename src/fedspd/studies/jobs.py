"""Many runs: on all cores, each once, kept in the user's cache folder by what they depend on."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from fedspd.assemble.extensions import source_of_brought
from fedspd.assemble.many import run_or_refuse
from fedspd.config import Config
from fedspd.data import SOURCES
from fedspd.data.source import OWN_SOURCES
from fedspd.errors import InputError
from fedspd.problem.fast import library
from fedspd.results import COLUMNS, Cache, History, Summary, digest, from_dict, to_json

RUNS = Cache("runs")
ROOMS = (
    "algorithms",
    "assemble",
    "audit",
    "config",
    "data",
    "engine",
    "evaluate",
    "privacy",
    "problem",
    "reading.py",
    "results",
    "scoring",
    "target.py",
    "typing.py",
)


OWN = (
    "These are runs on records of your own. Their noise follows from their seeds, so whoever has the settings can "
    "subtract it, and accuracies are measured without noise: keep models and numbers to yourself. Results are kept in "
    "your cache folder."
)


def on_own_records(configs: Iterable[Config]) -> tuple[str, ...]:
    """What a study says of somebody's own records, where it looks at such."""
    return (OWN,) if any(config.data.name in OWN_SOURCES for config in configs) else ()


@dataclass(frozen=True)
class Result:
    """What is kept of a run."""

    summary: Summary
    history: History


def run_all(configs: Sequence[Config], on_run: Callable[[], Any] = lambda: None) -> list[Result]:
    """The results in the order of the configurations; equal ones are run once, known ones not at all."""
    found = run_possible(configs, on_run)
    for result in found:
        if isinstance(result, InputError):
            raise result
    return [result for result in found if isinstance(result, Result)]


def run_possible(configs: Sequence[Config], on_run: Callable[[], Any] = lambda: None) -> list[Result | InputError]:
    """The same; in place of a result, why there is none."""
    keys = [run_key(config) for config in configs]
    waiting = dict(zip(keys, configs, strict=True))
    found: dict[str, Result | InputError] = {}
    for key in list(waiting):
        known = _read(key)
        if known is not None:
            found[key] = known
            del waiting[key]
    for _ in range(len(keys) - len(waiting)):
        on_run()
    if waiting:
        _run_missing(waiting, found, on_run)
    return [found[key] for key in keys]


def _run_missing(waiting: dict[str, Config], found: dict[str, Result | InputError], on_run: Callable[[], Any]) -> None:
    keys = list(waiting)
    for number, finished in run_or_refuse(list(waiting.values())):
        if isinstance(finished, InputError):
            found[keys[number]] = finished
        else:
            found[keys[number]] = result = kept(Result(finished.summary, finished.history))
            keep(keys[number], result)
        on_run()


def keep(key: str, result: Result) -> None:
    """Remember a result under its key."""
    RUNS.write(key, {"summary": np.array(to_json(result.summary.to_dict())), **result.history.columns})


def kept(result: Result) -> Result:
    """A result as it is read back, where what is not finite is missing."""
    return Result(from_dict(json.loads(to_json(result.summary.to_dict()))), result.history)


def _read(key: str) -> Result | None:
    stored = RUNS.read(key)
    if stored is None:
        return None
    try:
        return Result(from_dict(json.loads(str(stored["summary"]))), History({name: stored[name] for name in COLUMNS}))
    except (ValueError, KeyError):  # damaged: run it again
        return None


def run_key(config: Config) -> str:
    """Of every setting, of the program and of a user's table: a changed method or file never finds an old result."""
    data = config.data
    return digest(program_digest().encode(), repr(config).encode(), SOURCES[data.name].content(data.source))


def program_digest() -> str:
    """Of every source file that a result depends on, those of what users bring included, and of which are compiled."""
    compiled = b"" if library() is None else b"kernels"  # which round differently in the last bit
    return digest(_package_digest().encode(), source_of_brought(), compiled)


@cache
def _package_digest() -> str:
    root = Path(str(files("fedspd")))
    found = [
        file for room in ROOMS for file in ([root / room] if (root / room).is_file() else (root / room).rglob("*.*"))
    ]
    return digest(*(file.read_bytes() for file in sorted(found) if file.suffix in (".py", ".toml", ".xz", ".c", ".h")))
