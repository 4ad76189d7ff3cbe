"""Accuracy on Adult at end-to-end budgets: the proved method with its default rules, the published preset beside it.

IID clients, delta 1e-4, replace-one, scaling charged, nothing chosen on the test set; mean and
standard error over seeds.

Usage: python benchmarks/utility.py [--seeds 10]
"""

import argparse
from typing import Any

import numpy as np

import fedspd
from fedspd.results import mean_over_seeds
from fedspd.studies.compare import ADULT, central

BUDGETS = (0.1, 1.0, 3.0, 8.0)
COMMON: dict[str, Any] = {
    "privacy.delta": 1e-4, "metrics.criterion": False, "metrics.objective_every": 10**6, "metrics.lagrangian": False,
}  # fmt: skip
PROVED = {"privacy.allow_large_delta": True}  # delta is the paper's
SOME, FEW = {"run.participants": 20}, {"run.rounds_at_most": 25}
PAPERS = {"data.encode": "declared"}
SUMS = {"run.participants": 100, "privacy.trust": "secure-sums", "privacy.threshold": 80, "privacy.colluders": 13}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "proved, 100 clients, 20 a round": ("proved", SOME),
    "the same with the paper's 81 columns": ("proved", SOME | PAPERS),
    "and at most 25 rounds (500 uploads)": ("proved", SOME | PAPERS | FEW),
    "proved, 100 clients, all in each round": ("proved", {"run.participants": 100}),
    "the same as secure sums, at most 13 of 100 colluding": ("proved", SUMS),
    "proved, 5 clients, all in each round": ("proved", {"partition.clients": 5, "run.participants": 5}),
    "published, 100 clients, 20 a round": ("published", {}),
}


def accuracies(preset: str, settings: dict[str, Any], epsilon: float, seeds: int) -> np.ndarray:
    """Test accuracy in percent of the last model, for each seed."""
    common = COMMON | (PROVED if preset == "proved" else {}) | settings | {"privacy.epsilon": epsilon}
    runs = [fedspd.run(preset, {**common, "run.seed": seed}) for seed in range(seeds)]
    return np.array([100 * run.summary["test_accuracy"] for run in runs])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    print("| setting | " + " | ".join(f"total epsilon {epsilon:g}" for epsilon in BUDGETS) + " |")
    print("|---|" + "---|" * len(BUDGETS))
    for name, (preset, settings) in SETTINGS.items():
        means = [mean_over_seeds(accuracies(preset, settings, epsilon, seeds)) for epsilon in BUDGETS]
        cells = [f"{mean.value:.2f} ± {mean.error:.2f}" for mean in means]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(f"\nWithout privacy, l1 logistic regression: {central(ADULT).score:.2f}")


if __name__ == "__main__":
    main()
