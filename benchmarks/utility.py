"""Accuracy on Adult at end-to-end budgets: the proved method with its default rules, the published preset beside it.

N 100 IID clients, delta 1e-4, replace-one, scaling charged, nothing chosen on the test set; mean and
standard error over seeds.

Usage: python benchmarks/utility.py [--seeds 10]
"""

import argparse
from typing import Any

import numpy as np

import fedspd
from fedspd.results import mean_over_seeds
from fedspd.studies.compare import ADULT, central

BUDGETS = (0.1, 1.0, 3.0)
COMMON = {"privacy.delta": 1e-4, "metrics.criterion": False, "metrics.objective_every": 10**6}
SETTINGS: dict[str, tuple[str, dict[str, Any], tuple[float | None, ...]]] = {
    "proved, K 20, T 25 (at most 500 uploads)": ("proved", {"run.participants": 20}, (79.3, 83.7, 84.2)),
    "proved, K 100, T 5": ("proved", {"run.participants": 100}, (79.8, 84.0, 84.5)),
    "proved, K 20, T 100": ("proved", {"run.participants": 20, "run.rounds": 100}, (None, None, None)),
    "proved, K 100, T 50": ("proved", {"run.participants": 100, "run.rounds": 50}, (None, None, None)),
    "published, K 20, T 100": ("published", {}, (None, None, None)),
}


def accuracies(preset: str, settings: dict[str, Any], epsilon: float, seeds: int) -> np.ndarray:
    """Test accuracy in percent of the last model, for each seed."""
    runs = [
        fedspd.run(preset, COMMON | settings | {"privacy.epsilon": epsilon, "run.seed": seed}) for seed in range(seeds)
    ]
    return np.array([100 * run.summary["test_accuracy"] for run in runs])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    print("| setting | " + " | ".join(f"total epsilon {epsilon:g}" for epsilon in BUDGETS) + " |")
    print("|---|" + "---|" * len(BUDGETS))
    for name, (preset, settings, goals) in SETTINGS.items():
        cells = []
        for epsilon, goal in zip(BUDGETS, goals, strict=True):
            mean = mean_over_seeds(accuracies(preset, settings, epsilon, seeds))
            aim = f" (goal {goal})" if goal is not None else ""
            cells.append(f"{mean.value:.2f} ± {mean.error:.2f}{aim}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(f"\nWithout privacy, l1 logistic regression: {central(ADULT).score:.2f}")


if __name__ == "__main__":
    main()
