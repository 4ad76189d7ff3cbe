"""Lower bounds of this project beside those of JAX Privacy's auditor, from the same scores and the same counts.

Scores are those of FedSPD-DP's game with the preset at a total epsilon of 4 and three releases of a client, counts
those of its runs with many canaries. JAX Privacy runs in an environment of its own, thrown away at the end.

  python -m benchmarks.audit_bounds
  python -m benchmarks.audit_bounds --keep    the environment stays in the cache for the next time
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.audit_peers import PEERS, audited, ran
from benchmarks.audit_records import BUDGETS, CANARIES, DELTA, statement
from fedspd.audit.bounds import CONFIDENCE, PICKED_ON, Claim, lower_bound, rates_at
from fedspd.audit.canaries import one_run_bound, play_canaries
from fedspd.audit.game import play_game
from fedspd.audit.gaussian_run import gaussian_run_bound
from fedspd.audit.target import worst_pair

RUNS = 20_000
ERROR = 1 - CONFIDENCE
PEER = next(peer for peer in PEERS if peer.name == "jax_privacy")


def ours(scores: tuple[np.ndarray, np.ndarray], runs: list[tuple[int, int, int]]) -> dict[str, float]:
    """By what they are, in the order in which the script has the others."""
    claim = statement(max(BUDGETS)).claim
    bounds = {
        "many runs, direct, guesses at a likelihood ratio of 1": rates_at(scores, 0.0, ERROR / 2).epsilon(DELTA),
        "many runs, direct, threshold picked": lower_bound(*scores, Claim(claim.epsilon, DELTA)).direct,
        "many runs, Gaussian DP": lower_bound(*scores, claim).family or 0.0,
    }
    for budget, counts in zip(BUDGETS, runs, strict=True):
        bounds[f"one run at ε {budget:g}, any profile"] = one_run_bound(*counts, DELTA)
        bounds[f"one run at ε {budget:g}, Gaussian DP"] = gaussian_run_bound(*counts, DELTA)[1]
    return bounds


def theirs(scores: tuple[np.ndarray, np.ndarray], runs: list[tuple[int, int, int]], keep: bool) -> dict[str, Any]:
    """The same, as the library's own script reports it."""
    with audited(keep) as bench, tempfile.TemporaryDirectory(dir=bench.folder) as work:
        for name, one in zip(("first", "second"), scores, strict=True):
            np.save(Path(work) / name, one)
        given = {"error": ERROR, "delta": DELTA, "picked_on": PICKED_ON, "runs": runs}
        (Path(work) / "given.json").write_text(json.dumps(given))
        return json.loads(ran(bench, PEER, "bounds_of_jax_privacy.py", work).splitlines()[-1])


def table(keep: bool) -> Iterator[str]:
    """A line for each bound."""
    target = statement(max(BUDGETS)).target
    scores = play_game(target, worst_pair(target), RUNS, 0)
    runs = [(CANARIES, *play_canaries(statement(budget).target, CANARIES, seed=0)) for budget in BUDGETS]
    found = theirs(scores, runs, keep)
    yield f"| bound | this project | jax_privacy {found['version']} |\n|---|---|---|"
    for (name, mine), other in zip(ours(scores, runs).items(), found["bounds"], strict=True):
        yield f"| {name} | {mine:.4f} | {other:.4f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="keep environments in $XDG_CACHE_HOME/fedspd/peers")
    for line in table(parser.parse_args().keep):
        print(line, flush=True)


if __name__ == "__main__":
    main()
