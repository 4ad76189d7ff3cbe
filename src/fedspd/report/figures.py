"""Figures of one run: what the paper plots (accuracy, ALFV) and what it cost."""

from io import BytesIO
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedspd.experiment import Run

INK, BLUE, RED, GRAY = "#222222", "#1f5fa8", "#b3402a", "#9a9a9a"


def run_figure(run: Run) -> Figure:
    """Accuracy, augmented Lagrangian and privacy spent against rounds."""
    history, summary = run.history, run.summary
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    accuracy, lagrangian, privacy = figure.subplots(1, 3)
    rounds = history["round"]
    accuracy.plot(rounds, 100 * history["test_accuracy"], color=BLUE)
    accuracy.axhline(100 * summary["majority_accuracy"], color=GRAY, linestyle="--", linewidth=1)
    accuracy.annotate(
        "majority class", (rounds[-1], 100 * summary["majority_accuracy"]), (0, 3), color=INK, ha="right",
        fontsize=8, textcoords="offset points",
    )  # fmt: skip
    _label(accuracy, "Test accuracy", "%")
    lagrangian.plot(rounds, history["alfv"], color=BLUE)
    _label(lagrangian, "Augmented Lagrangian (ALFV)", "sum over clients")
    privacy.plot(rounds, history["epsilon_max"], color=RED, label="largest client")
    privacy.plot(rounds, history["epsilon_mean"], color=BLUE, label="mean client")
    if summary["epsilon"] is not None and summary["guarantee"] != "none":
        privacy.axhline(summary["epsilon"], color=GRAY, linestyle="--", linewidth=1, label="stated")
    privacy.legend(frameon=False, fontsize=8)
    _label(privacy, f"Privacy spent ({summary['guarantee']})", f"epsilon at delta {summary['delta']:g}")
    figure.suptitle(
        f"{summary['algorithm']}: {summary['clients']} clients, {summary['participants']} per round, "
        f"seed {summary['seed']}",
        fontsize=10,
    )
    return figure


def to_png(figure: Figure) -> bytes:
    """The picture without a date in it: same run, same bytes."""
    image = BytesIO()
    figure.savefig(image, format="png", dpi=130, metadata={"Software": None})
    return image.getvalue()


def _label(axes: Any, title: str, unit: str) -> None:
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xlabel("communication round", fontsize=9)
    axes.set_ylabel(unit, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.ticklabel_format(useOffset=False)
