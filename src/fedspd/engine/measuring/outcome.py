"""From what the rounds left behind to a history, the same for every engine."""

from typing import NamedTuple

import numpy as np

from fedspd.engine.measuring.diagnostics import Lagrangian, accuracies, objectives
from fedspd.engine.measuring.measures import explained
from fedspd.engine.parallel import ParallelMap
from fedspd.engine.participation import Course
from fedspd.engine.simulation import Outcome, Simulation
from fedspd.engine.spending import Spending
from fedspd.errors import InputError
from fedspd.results import History


class Trace(NamedTuple):
    """What rounds leave behind, one entry per round."""

    models: np.ndarray  # the global weights
    inverse_step: np.ndarray
    noise_scale: np.ndarray  # mean over the participants
    clipped_share: np.ndarray  # mean over the participants


def require_rounds(course: Course) -> None:
    """Refuse a run in which nobody could take part."""
    if not course.turns:
        raise InputError(
            "no client had budget for a single round; raise the budget, or name a new ledger with --ledger."
        )


def outcome_of(
    simulation: Simulation,
    spending: Spending,
    course: Course,
    trace: Trace,
    lagrangian: Lagrangian | None,
    each: ParallelMap,
    accuracy: np.ndarray | None = None,
) -> Outcome:
    """Evaluate the models of all rounds in few large matrix products.

    Args:
        accuracy: of every round's model, where the engine has measured it already.
    """
    require_rounds(course)
    spending.close()
    objective, models, rounds = simulation.algorithm.objective, trace.models, len(course.turns)
    at_last = {"epsilon_max": spending.largest, "epsilon_mean": spending.total / len(spending.epsilon)}
    nothing = np.full(rounds, np.nan)
    total = nothing.copy()
    if simulation.objective_every:
        evaluated = np.arange(rounds - 1, -1, -simulation.objective_every)
        total[evaluated] = objectives(objective, simulation.shards, models[evaluated], each)
    alfv = nothing if lagrangian is None else lagrangian.values()
    if accuracy is None:
        accuracy = accuracies(objective.loss, simulation.test, models, each)
    history = History(
        course.columns
        | {name: _ending(course.columns[name], value) for name, value in at_last.items()}
        | {
            "participants": _participants(simulation, course),
            "weights_norm": np.linalg.norm(models, axis=(1, 2)),
            "inverse_step": trace.inverse_step,
            "noise_scale": trace.noise_scale,
            "clipped_share": trace.clipped_share,
            "alfv": alfv,
            "alfv_per_client": alfv / simulation.shards.clients,
            "consensus_error": nothing if lagrangian is None else np.asarray(lagrangian.consensus),
            "objective": total,
            "test_accuracy": accuracy,
            "test_explained": explained(objective.loss, simulation.test, models, each),
        }
    )
    return Outcome(models, history, lagrangian, spending.participations)


def _ending(column: np.ndarray, value: float) -> np.ndarray:
    """A column with another last value."""
    ended = column.astype(float)
    ended[-1] = value
    return ended


def _participants(simulation: Simulation, course: Course) -> np.ndarray:
    """Clients that took part in each round: where cohorts did, their members."""
    if simulation.members is None:
        return course.participants
    counts = simulation.members.counts
    return np.array([int(counts[turn.chosen].sum()) for turn in course.turns])
