"""Draw the README's figure: accuracy against the total budget, proved and as published, mean and spread over seeds.

Usage: python scripts/draw_readme_figure.py
"""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import fedspd
from fedspd.report import to_png

BUDGETS = (0.1, 0.3, 1.0, 3.0, 10.0)
SEEDS = range(5)
SHOWN = {
    "proved": ("#1f5fa8", "released state, proved (rounds by rule)"),
    "published": ("#b3402a", "as published, not proved (100 rounds)"),
}
TARGET = Path(__file__).parents[1] / "docs" / "figures" / "accuracy.png"


def main() -> None:
    """Run, draw, write."""
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    majority = 0.0
    for preset, (color, label) in SHOWN.items():
        settings = {
            "privacy.delta": 1e-5,
            "metrics.criterion": False,
            "metrics.objective_every": 1000,
            "metrics.lagrangian": False,
        }
        runs = [
            [fedspd.run(preset, settings | {"privacy.epsilon": budget, "run.seed": seed}) for seed in SEEDS]
            for budget in BUDGETS
        ]
        majority = 100 * runs[0][0].summary["majority_accuracy"]
        accuracy = 100 * np.array([[run.summary["test_accuracy"] for run in row] for row in runs])
        axes.errorbar(
            BUDGETS, accuracy.mean(axis=1), accuracy.std(axis=1, ddof=1), color=color, marker="o", capsize=3,
            label=label,
        )  # fmt: skip
    axes.axhline(majority, color="#9a9a9a", linestyle="--", linewidth=1)
    axes.annotate("majority class", (10, majority), (0, 4), textcoords="offset points", ha="right", fontsize=8)
    axes.set(xscale="log", xlabel="total epsilon of every record, delta 1e-5", ylabel="test accuracy on Adult, %")
    axes.set_xticks(BUDGETS, [f"{budget:g}" for budget in BUDGETS])
    axes.minorticks_off()
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    TARGET.write_bytes(to_png(figure))
    print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
