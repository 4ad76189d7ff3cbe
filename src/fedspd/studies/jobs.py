"""Many runs: on all cores, each once, kept in the user's cache folder by what they depend on."""

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from fedspd.assemble.many import run_many
from fedspd.config import Config
from fedspd.results import COLUMNS, History, cache_folder, to_json

ROOMS = (
    "algorithms",
    "assemble",
    "config",
    "data",
    "engine",
    "privacy",
    "problem",
    "results",
    "typing.py",
)


@dataclass(frozen=True)
class Result:
    """What is kept of a run."""

    summary: dict[str, Any]
    history: History


def run_all(configs: Sequence[Config], on_run: Callable[[], Any] = lambda: None) -> list[Result]:
    """The results in the order of the configurations; equal ones are run once, known ones not at all."""
    keys = [run_key(config) for config in configs]
    waiting = dict(zip(keys, configs, strict=True))
    found: dict[str, Result] = {}
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


def _run_missing(waiting: dict[str, Config], found: dict[str, Result], on_run: Callable[[], Any]) -> None:
    keys = list(waiting)
    for number, finished in run_many(list(waiting.values()), engine="numpy"):
        result = Result(json.loads(to_json(finished.summary)), finished.history)
        _write(keys[number], result)
        found[keys[number]] = result
        on_run()


def _write(key: str, result: Result) -> None:
    path = cache_folder("runs") / f"{key}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_suffix(f".{os.getpid()}.tmp")
    with staging.open("wb") as file:
        np.savez(file, allow_pickle=False, summary=np.array(json.dumps(result.summary)), **result.history.columns)
    staging.replace(path)


def _read(key: str) -> Result | None:
    path = cache_folder("runs") / f"{key}.npz"
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return Result(json.loads(str(stored["summary"])), History({name: stored[name] for name in COLUMNS}))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):  # damaged: run it again
        return None


def run_key(config: Config) -> str:
    """Of every setting and of the program: a changed method never finds an old result."""
    digest = hashlib.blake2b(program_digest(), digest_size=16)
    digest.update(repr(config).encode())
    return digest.hexdigest()


@cache
def program_digest() -> bytes:
    """Of every source file that a result depends on."""
    digest = hashlib.blake2b(digest_size=16)
    root = Path(str(files("fedspd")))
    for room in ROOMS:
        path = root / room
        for file in sorted(path.rglob("*.*")) if path.is_dir() else [path]:
            if file.suffix in (".py", ".xz"):
                digest.update(file.read_bytes())
    return digest.digest()
