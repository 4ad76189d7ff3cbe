"""Write the golden runs anew: `python -m tests.golden.write`. Only where numbers are meant to change.

How a run rounds follows from the text of the program and from four things beside it: versions of the libraries,
the loops that NumPy picks for a processor, those that OpenBLAS picks, and kernels in C. Golden runs are written, and
held to the bit, in a process of their own with kernels off and loops that x86 processors of the last ten years have.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import threadpoolctl

from fedspd import run
from fedspd.algorithms import METHODS
from fedspd.config import Config, load
from fedspd.problem.fast import library
from tests.support.small_runs import SMALL

STEP = {"algorithm.inverse_step": 1.0}
SMOOTH = {"problem.regularizer": "squared-l2"}
EVERYBODY = {"run.participants": 10}
NEEDED: dict[str, dict[str, Any]] = {
    "fedspd": {},
    "dp-sgd": {},
    "dp-fedavg": {"algorithm.local_steps": 2},
    "dp-admm": {},
    "fedspd-published": {},
    "dp-sgd-published": STEP,
    "dp-fedavg-published": STEP,
    "dp-admm-published": {},
    "ddp-admm-dvp": SMOOTH | EVERYBODY,
    "ddp-admm-pvp": SMOOTH | EVERYBODY,
    "ddp-admm-pvp-published": SMOOTH | EVERYBODY,
    "dp-madmm": SMOOTH | EVERYBODY,
    "dp-radmm": SMOOTH | EVERYBODY,
    "dp-aadmm": {},
    "dp-lr-admm": SMOOTH | EVERYBODY,
    "ps-admm": {},
    "multi-step-dp-admm": {"algorithm.local_steps": 2},
    "private-admm": {},
    "dp-scaffold": {"algorithm.local_steps": 2},
    "noisy-prox-gd": {},
    "dp-ftrl": {},
    "one-shot": SMOOTH | {"run.rounds": 1},
    "fedavg": STEP,
    "fedprox": STEP,
    "fedpd": STEP | EVERYBODY,
}
FILE = Path(__file__).parent / "runs.json"
COLUMNS = ("test_accuracy", "weights_norm", "inverse_step", "noise_scale", "participants", "epsilon_max", "alfv")
VARIANTS: dict[str, dict[str, Any]] = {
    "fedspd in batches": {"algorithm.batch_size": 50, "algorithm.local_steps": 2},
    "fedspd with poisson batches": {"algorithm.batch_size": 50, "algorithm.sampling": "poisson"},
    "fedspd by label": {"partition.kind": "dirichlet", "partition.alpha": 0.5},
    "ddp-admm-dvp on a ring": {"algorithm.topology": "ring"},
}
"""Runs beside the plain one of every method; the method's name comes first."""


def golden(what: str) -> dict[str, list[str]]:
    """A run's weights and history, to the last bit."""
    changes = VARIANTS.get(what, {})
    finished = run(settings(what.split()[0], changes))
    values = {"weights": finished.weights.ravel(), "average": finished.average.ravel()}
    values |= {name: np.asarray(finished.history[name], float) for name in COLUMNS}
    return {name: [float(value).hex() for value in array] for name, array in values.items()}


def settings(name: str, changes: dict[str, Any]) -> Config:
    """A small run of a method."""
    preset = "proved" if METHODS[name].guarantee == "proved" else "published"
    usual = {"problem.strength": 0.001} if preset == "proved" else {}  # a tenth of what is usual for a sum over ten
    usual |= {"data.encode": "declared"}  # the columns that these numbers were written down for
    return load(preset, SMALL | NEEDED[name] | {"algorithm.name": name, "run.engine": "numpy"} | changes, usual)


def names() -> list[str]:
    """All golden runs."""
    return [*NEEDED, *VARIANTS]


def means() -> dict[str, Any]:
    """What else decides how this process rounds."""
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
        "loops of numpy": _loops(),
        "blas": sorted({_named(one) for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"}),
        "kernels": library() is not None,
    }


def _named(blas: Mapping[str, Any]) -> str:
    return " ".join(str(blas.get(part)) for part in ("internal_api", "version", "architecture"))


def _loops() -> list[str]:
    """Sets of instructions beyond the least that NumPy has picked loops for."""
    told: Any = np.show_config(mode="dicts")
    return told["SIMD Extensions"].get("found", [])


def _plain() -> dict[str, str]:
    """An environment in which loops are plain; a processor that cannot do OpenBLAS's keeps its own."""
    chosen = {"FEDSPD_KERNELS": "off", "NPY_DISABLE_CPU_FEATURES": " ".join(_loops())}
    return chosen | ({"OPENBLAS_CORETYPE": "Haswell"} if {"X86_V3", "AVX2"} & set(_loops()) else {})


def written(whats: Iterable[str]) -> dict[str, Any]:
    """Golden runs and the means they were made by, in a process of their own."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.golden.write", *whats]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, env=os.environ | _plain(), cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps({"means": means(), "runs": {what: golden(what) for what in sys.argv[1:]}}))
    else:
        FILE.write_text(json.dumps(written(names()), indent=0) + "\n")
