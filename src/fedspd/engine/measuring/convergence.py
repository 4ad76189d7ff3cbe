r"""The criterion H of the paper, and Theorem 2 held against a run.

$H = \sum_i [F_i(\bar x_i^T) - F_i(x^\star)] + \beta\sum_i\|\bar x_i^T - x_0^T\|$ with $\beta$ the radius
of the dual ball, so $d_\lambda = 2\beta$.
"""

import numpy as np

from fedspd.engine.measuring.diagnostics import local_objectives, objectives, row_weights
from fedspd.engine.simulation import Outcome, Simulation
from fedspd.privacy import PaperFormulas
from fedspd.problem import reference_optimum
from fedspd.results import Condition, Convergence


def optimum(simulation: Simulation) -> np.ndarray | None:
    r"""$x^\star$ of the un-clipped problem $\min\sum_i F_i$; None where no solver found it."""
    shards, objective = simulation.shards, simulation.algorithm.objective
    return reference_optimum(
        objective.loss,
        objective.regularizer.scaled(shards.clients),
        shards.features,
        shards.labels,
        row_weights(shards),
    )


def convergence(
    simulation: Simulation,
    outcome: Outcome,
    formulas: PaperFormulas | None,
    dual_diameter: float,
    best: np.ndarray | None,
) -> Convergence:
    """Evaluate H and, where `formulas` set the step size, the right side of Theorem 2; neither without an optimum."""
    if best is None:
        return Convergence(None, None, None, {})
    shards, objective, trace = simulation.shards, simulation.algorithm.objective, outcome.lagrangian
    average = trace.average(simulation.rounds)
    everyone = np.arange(shards.clients)
    reached = local_objectives(objective, shards, everyone, average)
    least = float(objectives(objective, shards, best[None])[0])
    beta = dual_diameter / 2
    distances = np.linalg.norm(average - outcome.weights, axis=(1, 2))
    criterion = float(reached.sum()) - least + beta * float(distances.sum())
    if formulas is None:
        return Convergence(criterion, None, least, {})
    start = local_objectives(objective, shards, everyone, np.zeros_like(average))
    disagreement = np.linalg.norm(trace.weights - outcome.weights, axis=(1, 2))
    gap = float((start - trace.local + beta * disagreement).sum()) / formulas.participation
    bound = formulas.convergence_bound(simulation.rounds, shards.clients, gap, trace.largest_regularizer)
    return Convergence(criterion, bound, least, _conditions(simulation, outcome, formulas, best))


def _conditions(
    simulation: Simulation, outcome: Outcome, formulas: PaperFormulas, best: np.ndarray
) -> dict[str, Condition]:
    gammas = outcome.history["inverse_step"]
    covered = int(np.sum(np.sqrt(gammas) <= formulas.penalty))
    reach = max(outcome.lagrangian.largest_norm, float(np.linalg.norm(best)))
    dual = float(np.linalg.norm(outcome.lagrangian.dual, axis=(1, 2)).max())
    clipped = float(np.mean(outcome.history["clipped_share"]))
    return {
        "penalty >= sqrt(inverse_step)": Condition(
            covered == simulation.rounds,
            f"holds in {covered} of {simulation.rounds} rounds: {formulas.penalty:g} against "
            f"{np.sqrt(gammas[0]):.3g} to {np.sqrt(gammas[-1]):.3g}",
        ),
        "bounded domain": Condition(
            reach <= formulas.diameter,
            f"start and optimum are {np.linalg.norm(best):.3g} apart, iterates reach "
            f"{outcome.lagrangian.largest_norm:.3g}, against d_X = {formulas.diameter:g}",
        ),
        "bounded duals": Condition(
            dual <= formulas.dual_diameter / 2,
            f"largest dual norm {dual:.3g} against beta = {formulas.dual_diameter / 2:g}",
        ),
        "gradients bounded by G": Condition(
            clipped == 0.0,
            f"{100 * clipped:.1f} % of record gradients had to be clipped to G = {formulas.gradient_bound:g}",
        ),
    }
