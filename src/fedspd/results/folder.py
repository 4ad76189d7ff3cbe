"""A run's folder on disk: complete or not there at all."""

import json
import math
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fedspd.errors import InputError
from fedspd.results.history import History

LIBRARIES = ("fedspd", "numpy", "dp-accounting", "scipy", "scikit-learn", "array-api-compat", "matplotlib")


@dataclass(frozen=True)
class RunFolder:
    """Where a run will be written; refused at once if something is there already.

    Args:
        replaces: a folder that holds a file of this name may be replaced.
    """

    path: Path
    replaces: str | None = None

    def __post_init__(self) -> None:
        obstacle = _obstacle(self.path, self.replaces)
        if obstacle:
            raise InputError(
                f"the output folder must be new or empty, got {self.path}, {obstacle}; name another with --out."
            )

    @contextmanager
    def staged(self) -> Iterator[Path]:
        """A folder beside the target to write into; it takes the target's place at the end, or vanishes."""
        target = self.path.resolve()
        staging = target.with_name(f".{target.name}.{os.getpid()}")
        made = [folder for folder in staging.parents if not folder.exists()]
        staging.mkdir(parents=True)
        try:
            yield staging
            if self.replaces and (target / self.replaces).exists():
                _swap(staging, target)
            else:
                staging.replace(target)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            for folder in made:
                with suppress(OSError):  # another run may have moved in
                    folder.rmdir()
            raise


def write_run(
    folder: Path,
    config: Mapping[str, Any],
    summary: Mapping[str, Any],
    history: History,
    model: Mapping[str, np.ndarray],
    figures: Mapping[str, bytes],
) -> None:
    """Everything that is left of a run, but for its ledger."""
    (folder / "config.toml").write_text(tomli_w.dumps(config))
    (folder / "summary.json").write_text(to_json(summary) + "\n")
    (folder / "environment.json").write_text(to_json(environment()) + "\n")
    history.write(folder / "history.csv")
    np.savez(folder / "model.npz", allow_pickle=False, **model)
    for name, image in figures.items():
        (folder / f"{name}.png").write_bytes(image)


def cache_folder(name: str) -> Path:
    """Where things of one kind are kept for the next time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedspd" / name


def to_json(value: Any) -> str:
    """Strict JSON: what is not finite becomes null."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def environment() -> dict[str, Any]:
    """What the numbers were computed with."""
    from importlib.metadata import version  # loads the standard library's mail and network modules

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _swap(staging: Path, target: Path) -> None:
    """Put a new folder in the place of an old one, which goes away only when the new one is there."""
    old = staging.with_name(f"{staging.name}.old")
    target.replace(old)
    staging.replace(target)
    shutil.rmtree(old, ignore_errors=True)


def _obstacle(path: Path, replaces: str | None) -> str | None:
    """Why a run cannot be written there, if it cannot."""
    try:
        if path.exists():
            if not path.is_dir():
                return "which is a file"
            if path.samefile(Path.cwd()):
                return "which is the current folder and would be replaced"
            if any(path.iterdir()) and not (replaces and (path / replaces).exists()):
                return f"which already holds {'a run' if (path / 'summary.json').exists() else 'files'}"
        home = next(folder for folder in path.resolve().parents if folder.exists())
        if not home.is_dir() or not os.access(home, os.W_OK):
            return f"but {home} is no folder that can be written to"
    except OSError as error:
        return f"but: {error.strerror}"
    return None


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    return value
