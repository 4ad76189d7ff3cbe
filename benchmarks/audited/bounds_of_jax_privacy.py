"""JAX Privacy's CanaryScoreAuditor on scores and counts that were handed over: what it proves, as JSON."""
# pyright: basic, reportMissingImports=false

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor, Explicit, Split

folder = Path(sys.argv[1])
given = json.loads((folder / "given.json").read_text())
error, delta = given["error"], given["delta"]
scores = CanaryScoreAuditor(np.load(folder / "second.npy"), np.load(folder / "first.npy"))


def of_run(canaries: int, guesses: int, right: int) -> CanaryScoreAuditor:
    """One run, as its class takes it: scores that are 1 for what is guessed, so that so many guesses are right."""
    wrong, inside = guesses - right, canaries // 2
    return CanaryScoreAuditor(np.arange(inside) < right, np.arange(canaries - inside) < wrong)


def clopper_pearson(threshold: Explicit | Split) -> float:
    """Without a family, whichever way the scores point."""
    return scores.epsilon_clopper_pearson(error, delta, one_sided=False, threshold_strategy=threshold)


bounds = [
    clopper_pearson(Explicit(0.0)),
    clopper_pearson(Split(given["picked_on"], seed=0)),
    scores.epsilon_from_gdp(error, delta),
]
for counts in given["runs"]:
    one = of_run(*counts)
    bounds.append(one.epsilon_one_run(error, delta, threshold_strategy=Explicit(0.5)))
    bounds.append(one.epsilon_one_run_fdp(error, delta, threshold_strategy=Explicit(0.5)))
print(json.dumps({"version": version("jax_privacy"), "bounds": [float(bound) for bound in bounds]}))
