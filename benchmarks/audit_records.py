"""What attackers find out about single records: membership, canaries in one run, rows rebuilt from an upload."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedspd import assemble
from fedspd import config as configuration
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.assemble.finished.audited import contests_of
from fedspd.audit.canaries import one_run_bound, play_canaries
from fedspd.audit.game import play_game
from fedspd.audit.gaussian_run import gaussian_run_bound
from fedspd.audit.membership import LOW, LOWER, Curve, allowed, curve
from fedspd.audit.reconstruction import rebuilt_rows, recovered
from fedspd.audit.target import worst_pair
from fedspd.audit.verdict import Contest
from fedspd.data import SOURCES, declare, finish
from fedspd.privacy.accounting import Gaussian, calibrate
from fedspd.problem import Objective, Softmax, Unregularized
from fedspd.report import Chart, Series, draw, to_png

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "audit-membership.png"
BUDGETS, DELTA, CANARIES = (1.0, 4.0), 1e-5, 4000
FEW: dict[str, Any] = {"run.rounds": 3, "run.participants": 100, "run.seed": 0}
QUIET: dict[str, Any] = {"metrics.criterion": False, "metrics.lagrangian": False, "metrics.objective_every": 0}
REBUILT, BIAS = 2000, 0.25
RATES = np.geomspace(LOWER, 1.0, 60)


def statement(epsilon: float, **changes: Any) -> Contest:
    """The preset's method with three releases of a client."""
    return contests_of(configuration.load("proved", {**FEW, "privacy.epsilon": epsilon, **changes}))[0]


def transcripts(runs: int) -> dict[float, Curve]:
    """Curves of the worst record against an attacker who sees all that its client releases."""
    contests = {epsilon: statement(epsilon) for epsilon in BUDGETS}
    return {
        epsilon: curve(*play_game(one.target, worst_pair(one.target), runs, 0)) for epsilon, one in contests.items()
    }


def final_model(preset: str, changes: dict[str, Any]) -> Curve:
    """Adult's own records against who sees the last model: are losses of training records smaller?"""
    config = configuration.load(preset, {"run.seed": 0, **QUIET, **changes})
    experiment = assemble.prepare_experiment(config)
    weights, simulation = assemble.execute(experiment).weights, experiment.simulation
    objective, test = simulation.algorithm.objective, simulation.tested
    inside = objective.losses(weights, np.asarray(simulation.shards.features), simulation.shards.labels)
    outside = objective.losses(weights, test.features, test.labels)
    return curve(-outside, -inside)


def membership_table(runs: int, picture: Path | None) -> Iterator[str]:
    """AUC and the low end of curves, beside what claims allow; the whole curves as a picture."""
    yield "| attack | claimed ε | AUC | true positives at 1 % false | allowed | at 0.1 % false | allowed |"
    yield "|---|---|---|---|---|---|---|"
    worst = transcripts(runs)
    for epsilon, one in worst.items():
        yield _line("worst record, all releases", epsilon, one)
    yield _line("Adult's records, final model", 1.0, final_model("proved", {"privacy.epsilon": 1.0}))
    unprotected = {"privacy.epsilon": float("inf"), "problem.clip_norm": float("inf"), "algorithm.inverse_step": 20.0}
    yield _line("Adult's records, final model", None, final_model("published", unprotected))
    if picture is not None:
        picture.write_bytes(figure(worst))


def _line(name: str, epsilon: float | None, found: Curve) -> str:
    cells = []
    for rate in (LOW, LOWER):
        cells.append(f"{100 * found.at(rate):.2f} %")
        most = None if epsilon is None else allowed(epsilon, DELTA, np.array([rate])).true_positives[0]
        cells.append("100 %" if most is None else f"{100 * most:.2f} %")
    claimed = "no noise" if epsilon is None else f"{epsilon:g}"
    return f"| {name} | {claimed} | {found.area:.3f} | " + " | ".join(cells) + " |"


def figure(found: dict[float, Curve]) -> bytes:
    """True against false positives on logarithmic axes, a picture for each budget."""
    charts = []
    for epsilon, one in found.items():
        reached = [one.at(rate) or None for rate in RATES]
        curves = {"attacker": reached, "allowed by the claim": allowed(epsilon, DELTA, RATES).true_positives}
        series = [Series(name, tuple(RATES), tuple(values)) for name, values in curves.items()]
        series.append(Series("guessing", tuple(RATES), tuple(RATES)))
        charts.append(
            Chart(f"epsilon {epsilon:g}", "false positives", "true positives", tuple(series), log_x=True, log_y=True)
        )
    return to_png(draw(charts, "Membership of the worst record, by all that its client releases"))


def canary_table() -> Iterator[str]:
    """One run, many canaries."""
    yield "| one run | claimed ε | guesses | right | by any profile | by Gaussian DP |"
    yield "|---|---|---|---|---|---|"
    for epsilon in BUDGETS:
        target = statement(epsilon).target
        guesses, right = play_canaries(target, CANARIES, seed=0)
        bound = one_run_bound(CANARIES, guesses, right, DELTA)
        _, sharper = gaussian_run_bound(CANARIES, guesses, right, DELTA)
        yield f"| fedspd, {CANARIES:,} canaries | {epsilon:g} | {guesses} | {right} | {bound:.3f} | {sharper:.3f} |"


def rebuilt_table() -> Iterator[str]:
    """Features of Adult's records that one upload of batch size one tells."""
    yield "| noise on the upload | numbers within a twentieth of their range | levels that are right |"
    yield "|---|---|---|"
    config = configuration.load("proved", {})
    declared = declare(SOURCES["adult"].read(config.data.source))
    features, labels = declared.train.features[:REBUILT], declared.train.labels[:REBUILT]
    width = features.shape[1]
    rows = finish(np.asarray(features, float), np.zeros(width), np.ones(width), BIAS, 1.0)
    method = FedSPD(Objective(Softmax(2), Unregularized(), 0.5), 100, 0.1, 1, 0.5, 1.0)
    for name, epsilon in (("none", None), ("ε = 10", 10.0), ("ε = 1", 1.0)):
        noise = 0.0 if epsilon is None else calibrate(Gaussian, 1, epsilon, DELTA)
        found = recovered(rebuilt_rows(method, rows, labels, noise, BIAS, 0), features, declared.train.columns)
        yield f"| {name} | {100 * found.numbers:.1f} % | {100 * found.levels:.1f} % |"
    common = np.tile(np.median(features, axis=0), (len(features), 1))
    guessed = recovered(common, features, declared.train.columns)
    yield f"| (the median of every column, for all) | {100 * guessed.numbers:.1f} % | {100 * guessed.levels:.1f} % |"
