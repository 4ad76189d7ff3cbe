"""The numbers a run is remembered by."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from fedspd.algorithms import METHODS, Algorithm, label
from fedspd.assemble.build import Experiment
from fedspd.assemble.cohorts import told_trust
from fedspd.engine import Outcome
from fedspd.engine.measuring.measures import optimum_measures
from fedspd.privacy import ProvedPlan, PublishedPlan
from fedspd.privacy.accounting import spent
from fedspd.results import COLUMNS, Convergence, History, Summary

AnyPlan = ProvedPlan | PublishedPlan
NUMBER = 8  # bytes of one uploaded number
REMEMBERED = 8  # plans whose statement is known: runs that differ in their seed share one
MECHANISMS = {
    "gaussian": "Gaussian",
    "laplace": "spherical Laplace",
    "objective": "spherical Laplace, in objectives, Gaussian on minimizers",
}
SUMS_ADVERSARY = (
    "the server, honest or not, with at most the stated number of a cohort's members and everybody outside it"
)
_LAW = "by the law of their losses"
CONVERSIONS = {
    ("laplace", "proved"): f"each round is pure; {_LAW}, or their epsilons, rounds compose to (epsilon, delta)",
    ("laplace", "as published"): "each round is pure and their epsilons add up; delta is not used",
    ("objective", "proved"): f"each round is pure but for a small Gaussian; {_LAW} all compose to (epsilon, delta)",
}
"""How pure privacy became the (epsilon, delta) that is stated."""


def summarize(
    experiment: Experiment,
    outcome: Outcome,
    average: np.ndarray,
    measured: Convergence | None,
    best: np.ndarray | None,
    engine: str,
    wall_seconds: float,
    measures: Mapping[str, Any],
) -> Summary:
    """Privacy first, then what was reached, beside what the optimum reaches where that was solved for."""
    simulation, history = experiment.simulation, outcome.history
    shards, algorithm = simulation.shards, simulation.algorithm
    columns, outputs = shards.features.shape[1], algorithm.objective.loss.outputs
    return Summary(
        **stated_privacy(
            experiment.config.algorithm.name,
            experiment.plan,
            algorithm,
            history,
            len(shards.labels) / shards.clients,
            simulation.expected_participations,
            "float32" if engine == "jax" and not algorithm.exact else "float64",
        ),
        rounds=len(outcome.models),
        rounds_planned=simulation.rounds,
        stopped=_stopped(experiment, outcome),
        clients=experiment.holdings.clients,
        participants=experiment.config.participants,
        participations_max=int(outcome.participations.max()),
        uploads=int(history["participants"].sum()),
        records_min=int(experiment.holdings.sizes.min()),
        records_max=int(experiment.holdings.sizes.max()),
        dimension=columns * outputs,
        penalty=algorithm.penalty,
        inverse_step=history.last("inverse_step"),
        test_accuracy=history.last("test_accuracy"),
        **measures,
        **optimum_measures(algorithm.objective.loss, simulation.test, best),
        bytes_uploaded=NUMBER
        * upload_size(algorithm, experiment.plan, columns, outputs)
        * int(history["participants"].sum()),
        objective=history.last("objective"),
        alfv=history.last("alfv"),
        consensus_error=history.last("consensus_error"),
        weights_norm=history.last("weights_norm"),
        clipped_share=float(np.mean(history["clipped_share"])),
        convergence=measured,
        wall_seconds=wall_seconds,
        seed=experiment.config.run.seed,
        columns=COLUMNS,
        records=experiment.holdings.records,
        test_records=None if simulation.test is None else len(simulation.test),
        engine=engine,
    )


def upload_size(algorithm: Algorithm, plan: AnyPlan, columns: int, outputs: int) -> int:
    """Numbers that a client uploads in a round: its reply, or a gradient where a cohort replies in its place."""
    if told_trust(plan):
        return columns * outputs
    return algorithm.start(np.zeros((1, columns, outputs)))[2].size


def stated_privacy(
    name: str, plan: AnyPlan, method: Algorithm, history: History, records: float, participations: float,
    precision: str = "float64",
) -> dict[str, Any]:  # fmt: skip
    """What a run states about privacy, simulated or between real sites.

    Args:
        name: of the method.
        plan: its noise and events.
        method: itself.
        history: what was spent by round.
        records: of a client, on average.
        participations: of a client, as many as are expected.
        precision: of clients' noise and states.
    """
    card = METHODS[name].card
    common = {
        "algorithm": name,
        "title": label(name, name),
        "guarantee": plan.guarantee,
        "delta": plan.delta,
        "unit": plan.unit,
        "relation": plan.relation,
        "sampling": plan.sampling,
        "mechanism": MECHANISMS[plan.law],
        "conversion": CONVERSIONS.get((plan.law, plan.guarantee)),
        "adversary": card.adversary,
        "precision": precision,
        "epsilon_spent_max": history.last("epsilon_max"),
        "epsilon_spent_mean": history.last("epsilon_mean"),
        "clip_norm": float(method.objective.clip_norm) if np.isfinite(method.objective.clip_norm) else None,
    }
    if isinstance(plan, ProvedPlan):
        return common | _proved(plan) | _trust(plan)
    return common | _published(name, plan, records, participations)


def _trust(plan: ProvedPlan) -> dict[str, Any]:
    """What the server sees, and against whom the claim stands where that is sums only."""
    told = told_trust(plan)
    return told and told | {"adversary": SUMS_ADVERSARY}


@lru_cache(maxsize=REMEMBERED)
def _proved(plan: ProvedPlan) -> dict[str, Any]:
    one_round = max(_one_round(group.event, plan.delta, plan.accountant) for group in plan.groups)
    return {
        "epsilon": float(plan.budgets.max()),
        "epsilon_proved": float(plan.budgets.max()),
        "unproved_because": None,
        "epsilon_per_round": one_round,
        "noise_multiplier": float(plan.noise_multipliers.max()),
        "accountant": plan.accountant,
        "scaling_charged": any(group.moments is not None for group in plan.groups),
    }


@lru_cache(maxsize=256)  # runs of a study that differ in their seed have the same plan
def _one_round(event: Any, delta: float, accountant: Any) -> float:
    return spent([(event, 1)], delta, accountant).epsilon


@lru_cache(maxsize=REMEMBERED)
def _published(name: str, plan: PublishedPlan, records: float, participations: float) -> dict[str, Any]:
    """What the paper would state: Theorem 1 at the average shard and p T participations."""
    return {
        "epsilon": float(plan.stated(records, participations)),
        "epsilon_proved": None,
        "unproved_because": METHODS[name].card.caveat,
        "epsilon_per_round": plan.epsilon_per_round,
        "noise_multiplier": plan.noise_multiplier,
        "accountant": "published",
        "scaling_charged": False,
    }


def _stopped(experiment: Experiment, outcome: Outcome) -> str | None:
    done, planned = len(outcome.models), experiment.simulation.rounds
    if done == planned:
        return None
    return (
        f"after {done} of {planned} rounds: fewer than {experiment.simulation.min_participants} clients had budget "
        "left for another round"
    )
