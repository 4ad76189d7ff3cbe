"""`make soak`: random configurations for so many minutes, each held against other ways to the same numbers.

Ends with 1 and says how to run a configuration again as soon as one of them does not hold.
"""

import argparse
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedspd.assemble.build import Experiment, prepare_experiment
from fedspd.config import Config
from fedspd.engine import simulate
from fedspd.engine.jax_engine.session import installed
from fedspd.errors import InputError
from fedspd.privacy import POISSON
from fedspd.privacy.ledger import Ledger, create_ledger
from tests.soak import checks
from tests.soak.configurations import drawn_settings, read
from tests.support.cut_off import Killer, run_files, timed

GROWTH = 300 << 20  # bytes that a soak may grow by after its first quarter
LOADING = 60  # seconds in which tables are read and programs compiled for the first time, which are kept
NAMED = ("privacy.unit", "privacy.trust", "run.absence", "evaluation.held_out")  # that are counted by value
COMPILED, KILLED = 0.1, 0.05  # shares of configurations that are compiled, and killed as processes


@dataclass
class Soak:
    """What was tried, and what did not hold."""

    seed: int
    tried: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)

    def try_one(self, number: int) -> None:
        """One configuration."""
        rng = random.Random(f"{self.seed} {number}")
        preset, chosen = drawn_settings(rng)
        try:
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                experiment = _prepared(preset, chosen)
                if experiment is None:
                    self.tried["refused in a sentence"] += 1
                    return
                self._hold(experiment, (preset, chosen), Path(folder), rng)
            self.tried[chosen["algorithm.name"]] += 1
            self.tried.update(f"{name} = {chosen[name]}" for name in NAMED if name in chosen)
        except Exception:
            told = " ".join(f"--set {name}={value}" for name, value in chosen.items())
            self.found.append(f"number {number}: fedspd run {preset} {told}\n{traceback.format_exc()}")
            print(self.found[-1], file=sys.stderr, flush=True)

    def _hold(
        self, experiment: Experiment, typed: tuple[str, dict[str, Any]], folder: Path, rng: random.Random
    ) -> None:
        config, run = experiment.config, experiment.simulation
        whole = simulate(run)
        checks.require_near("a plain engine", whole.models, checks.plain_models(run), checks.NEAR)
        (folder / "kept").mkdir()
        checks.require_same_bits("cut off", checks.cut_off_and_resumed(run, folder / "kept", rng), whole)
        self.tried["cut off"] += 1
        if experiment.plan.guarantee == "proved":
            self._charge(config, folder, experiment)
        if installed() and rng.random() < COMPILED and run.plan.sampling != POISSON:
            checks.require_near("compiled", checks.compiled(run).models, whole.models, 100 * checks.NEAR)
            self.tried["compiled"] += 1
        if rng.random() < KILLED and config.evaluation.held_out is None:
            self._kill(typed, folder, rng)

    def _charge(self, config: Config, folder: Path, free: Experiment) -> None:
        """The same run on a ledger: the same numbers, and a statement that its rows bear out."""
        create_ledger(path := folder / "ledger.sqlite")
        with Ledger(path) as ledger:
            charged = prepare_experiment(config, lambda: ledger)
            outcome = simulate(charged.simulation, gate=charged.gate)
        if config.evaluation.held_out is None:  # by a key of the ledger, else
            checks.require_same_bits("on a ledger", outcome, simulate(free.simulation))
        checks.require_statement(charged, outcome, path)
        self.tried["charged"] += 1
        if config.evaluation.held_out is not None:
            create_ledger(measured := folder / "measured.sqlite")
            self.tried["measured" if checks.measured(config, measured) else "measure refused in a sentence"] += 1

    def _kill(self, typed: tuple[str, dict[str, Any]], folder: Path, rng: random.Random) -> None:
        """The same run as a process, killed at random moments."""
        preset, chosen = typed
        settings = [
            f"--set={name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in chosen.items()
        ]
        command = ("run", preset, *settings, "--quiet", "--checkpoint-every=0")
        killer = Killer(rng, timed(folder, (*command, "--out", "whole")))
        killer.finish(folder, command, "cut", 4)
        if run_files(folder / "cut") != run_files(folder / "whole"):
            raise AssertionError("killed: the folder differs")
        self.tried["killed"] += killer.kills


def _prepared(preset: str, chosen: dict[str, Any]) -> Experiment | None:
    """What settings are made into; None where that refuses them, the last moment at which a run may be."""
    try:
        return prepare_experiment(read(preset, chosen))
    except InputError:
        return None


def main() -> None:
    """Soak until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the configurations; default: the time")
    parser.add_argument("--only", type=int, help="try the configuration of this number alone")
    asked = parser.parse_args()
    soak, begin = Soak(asked.seed), time.monotonic()
    end, loaded = begin + 60 * asked.minutes, begin + max(15 * asked.minutes, LOADING)
    print(f"seed {asked.seed}", flush=True)
    if asked.only is not None:
        soak.try_one(asked.only)
    else:
        number, settled = 0, None
        while time.monotonic() < end:
            soak.try_one(number)
            number += 1
            if settled is None and time.monotonic() > loaded:
                settled = _memory()
        if settled is not None and (grown := _memory() - settled) > GROWTH:
            soak.found.append(f"memory grew by {grown >> 20} MiB in the last three quarters")
            print(soak.found[-1], file=sys.stderr, flush=True)
        print(f"{number} configurations; memory {_memory() >> 20} MiB, most {_most() >> 20} MiB")
    for what, times in soak.tried.most_common():
        print(f"{times:7d}  {what}")
    print(f"{len(soak.found)} findings")
    sys.exit(1 if soak.found else 0)


def _memory() -> int:
    """Bytes of this process now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _most() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    main()
