"""Accuracy on Adult at end-to-end budgets: the proved method with its default rules, the published preset beside it.

IID clients, delta 1e-4, replace-one, scaling charged, nothing chosen on the test set; mean and
standard error over seeds. Then what secure sums reach at delta 1e-5, with one cohort and with several, and where whole
clients are protected.

Usage: python benchmarks/utility.py [--seeds 10] [--epsilon 1]
"""

import argparse
from typing import Any

import numpy as np

import fedspd
from fedspd.report.numbers import at_most
from fedspd.results import mean_over_seeds
from fedspd.studies.compare import ADULT, central

BUDGETS = (0.1, 1.0, 3.0, 8.0)
COMMON: dict[str, Any] = {
    "privacy.delta": 1e-4, "metrics.criterion": False, "metrics.objective_every": 10**6, "metrics.lagrangian": False,
    "run.engine": "numpy",  # by rule it is JAX where there is an accelerator, which has other draws for the same seed
}  # fmt: skip
PROVED = {"privacy.allow_large_delta": True}  # delta is the paper's
SOME, FEW = {"run.participants": 20}, {"run.rounds_at_most": 25}
FIVE_CLIENTS = {"partition.clients": 5, "run.participants": 5}
PAPERS = {"data.encode": "declared"}
SUMS = {"run.participants": 100, "privacy.trust": "secure-sums", "privacy.threshold": 80, "privacy.colluders": 13}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "proved, 100 clients, 20 a round": ("proved", SOME),
    "the same in at most 25 rounds (500 uploads)": ("proved", SOME | FEW),
    "20 a round, with the paper's 81 columns": ("proved", SOME | PAPERS),
    "with them in at most 25 rounds": ("proved", SOME | PAPERS | FEW),
    "proved, 100 clients, all in each round": ("proved", {"run.participants": 100}),
    "the same as secure sums, at most 13 of 100 colluding": ("proved", SUMS),
    "proved, 5 clients, all in each round": ("proved", FIVE_CLIENTS),
    "the same with the paper's 81 columns": ("proved", FIVE_CLIENTS | PAPERS),
    "published, 100 clients, 20 a round": ("published", {}),
}

FIVE = {"run.participants": 20, "privacy.trust": "secure-sums", "privacy.threshold": 16, "privacy.colluders": 3}
SKEWED = {"partition.kind": "dirichlet", "partition.alpha": 0.1, "partition.at_least": 5}
TIGHT = {"privacy.delta": 1e-5, "privacy.allow_large_delta": False}
TRUST: dict[str, tuple[str, dict[str, Any]]] = {
    name: ("proved", settings | TIGHT)
    for name, settings in {
        "one cohort of 100 (t 80, c 13)": SUMS,
        "one cohort with the paper's 81 columns": SUMS | PAPERS,
        "five cohorts of 20 (t 16, c 3), one a round": FIVE,
        "the same with the paper's 81 columns": FIVE | PAPERS,
        "and labels dealt by Dirichlet 0.1": FIVE | PAPERS | SKEWED,
        "or by occupation": FIVE | PAPERS | {"partition.kind": "by-column", "partition.column": "occupation"},
    }.items()
}

WHOLE = SUMS | TIGHT | {"privacy.unit": "client"}
UNIT: dict[str, tuple[str, dict[str, Any]]] = {
    "whole clients, FedSPD-DP": ("proved", WHOLE),
    "whole clients, DP-FedAvg with five local steps": (
        "proved", WHOLE | {"algorithm.name": "dp-fedavg", "algorithm.local_steps": 5},
    ),
}  # fmt: skip


def accuracies(preset: str, settings: dict[str, Any], epsilon: float, seeds: int) -> np.ndarray:
    """Test accuracy in percent of the last model, for each seed."""
    common = COMMON | (PROVED if preset == "proved" else {}) | settings | {"privacy.epsilon": epsilon}
    runs = [fedspd.run(preset, {**common, "run.seed": seed}) for seed in range(seeds)]
    return np.array([100 * run.summary["test_accuracy"] for run in runs])


def table(rows: dict[str, tuple[str, dict[str, Any]]], budgets: tuple[float, ...], seeds: int) -> None:
    """Print a table of settings and budgets."""
    print("| setting | " + " | ".join(f"total epsilon {epsilon:g}" for epsilon in budgets) + " |")
    print("|---|" + "---|" * len(budgets))
    for name, (preset, settings) in rows.items():
        means = [mean_over_seeds(accuracies(preset, settings, epsilon, seeds)) for epsilon in budgets]
        cells = [f"{mean.value:.2f} ± {mean.error:.2f}" for mean in means]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def alone(settings: dict[str, Any], budgets: tuple[float, ...]) -> str:
    """What is left of each budget if everybody else colludes."""
    common = COMMON | settings | {"run.seed": 0}
    runs = [fedspd.run("proved", {**common, "privacy.epsilon": epsilon}) for epsilon in budgets]
    return ", ".join(f"{at_most(run.summary.epsilon_alone)} for {run.summary.epsilon:g}" for run in runs)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epsilon", type=float, action="append", help="of these budgets only; repeatable")
    asked = parser.parse_args()
    for rows, budgets in ((SETTINGS, BUDGETS), (TRUST, BUDGETS[:3]), (UNIT, BUDGETS[1:])):
        table(rows, tuple(asked.epsilon or budgets), asked.seeds)
        print()
    print(f"One cohort, by a client's own noise alone: {alone(SUMS | TIGHT, tuple(asked.epsilon or BUDGETS))}")
    print(f"Without privacy, l1 logistic regression: {central(ADULT).score:.2f}")


if __name__ == "__main__":
    main()
