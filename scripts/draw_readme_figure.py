"""Draw the README's figure: the published preset at four total budgets, mean and spread over seeds.

Usage: python scripts/draw_readme_figure.py
"""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import fedspd
from fedspd.report import to_png

BUDGETS = {0.5: "#b3402a", 1.0: "#c98a1b", 3.0: "#3a7d44", 10.0: "#1f5fa8"}
SEEDS = range(5)
TARGET = Path(__file__).parents[1] / "docs" / "figures" / "published.png"


def main() -> None:
    """Run, draw, write."""
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    accuracy, lagrangian = figure.subplots(1, 2)
    majority = 0.0
    for epsilon, color in BUDGETS.items():
        runs = [
            fedspd.run("published", {"privacy.epsilon": epsilon, "run.seed": seed, "metrics.criterion": False})
            for seed in SEEDS
        ]
        majority = runs[0].summary["majority_accuracy"]
        for axes, column, factor in ((accuracy, "test_accuracy", 100), (lagrangian, "alfv", 1)):
            values = factor * np.array([run.history[column] for run in runs])
            mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
            rounds = np.arange(1, values.shape[1] + 1)
            axes.plot(rounds, mean, color=color, label=f"total epsilon {epsilon:g}, as published")
            axes.fill_between(rounds, mean - deviation, mean + deviation, color=color, alpha=0.15, linewidth=0)
    accuracy.axhline(100 * majority, color="#9a9a9a", linestyle="--", linewidth=1, label="majority class")
    accuracy.set(title="Test accuracy, %", xlabel="communication round")
    lagrangian.set(title="Augmented Lagrangian", xlabel="communication round")
    accuracy.legend(frameon=False, fontsize=8)
    for axes in (accuracy, lagrangian):
        axes.spines[["top", "right"]].set_visible(False)
    TARGET.write_bytes(to_png(figure))
    print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
