"""What a script in another library's environment writes: releases on two neighbors, and what is declared of them.

A declaration holds the arguments of `fedspd.testing.Statement`. With `gaussian` an (epsilon, delta) is declared of one
Gaussian release, whose whole profile follows from it. An empty one: the library declares nothing.
"""

import argparse
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """A mechanism as it is released, two neighbors, and a declaration."""

    name: str
    declared: dict[str, Any]
    release: Callable[[int], Any]  # of the first data set or the second; the attacker may have computed from it
    share: float = 1.0  # of the runs, where one takes long


def write(library: str, cases: list[Case]) -> None:
    """All releases of all cases into the folder that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, required=True)
    given = parser.parse_args()
    told = []
    for number, case in enumerate(cases):
        for world in (0, 1):
            rows = [np.ravel(np.asarray(case.release(world), float)) for _ in range(int(case.share * given.runs))]
            np.save(given.folder / f"{number}-{world}.npy", np.stack(rows))
        told.append({"name": f"{library} {version(library)}: {case.name}", "declared": case.declared})
    (given.folder / "cases.json").write_text(json.dumps(told))
