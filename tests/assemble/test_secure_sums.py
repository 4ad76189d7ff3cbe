"""Trust in secure sums: cohorts share their noise, both numbers are told, what no proof covers is refused."""

from dataclasses import fields, replace
from functools import cached_property
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd import InputError, config, run
from fedspd.algorithms.parts.moves import MEAN, WEIGHTS
from fedspd.algorithms.parts.spd_on_sums import SPDOnSums
from fedspd.assemble import prepare_experiment
from fedspd.engine import simulate
from fedspd.engine.numpy_engine import Draws, draw_round
from fedspd.privacy import ProvedPlan
from fedspd.privacy.accounting import Gaussian, SharedGaussian, alone, spent
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.privacy.ledger.report import show
from fedspd.report import privacy_statement

QUIET: dict[str, Any] = {
    "metrics.criterion": False, "metrics.lagrangian": False, "metrics.objective_every": 0, "data.encode": "declared",
    "privacy.trust": "secure-sums", "run.engine": "numpy",
}  # fmt: skip
ONE = {"run.participants": 100, "privacy.threshold": 80, "privacy.colluders": 13}
SMALL = QUIET | {"partition.clients": 12, "run.participants": 4, "run.rounds": 6}  # three cohorts of four


def experiment(**changes: Any) -> Any:
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return prepare_experiment(config.load("proved", SMALL | dotted))


def one_cohort(rounds: int) -> Any:
    return prepare_experiment(config.load("proved", QUIET | ONE | {"run.rounds": rounds}))


def test_the_noise_of_a_sum_is_that_of_all_members_of_whom_the_claim_counts_the_honest() -> None:
    made = one_cohort(10)
    plan, simulation = made.plan, made.simulation
    sensitivity = simulation.algorithm.sensitivity(1, simulation.batch_sizes(np.arange(1)))
    np.testing.assert_allclose(sensitivity, 2 * simulation.algorithm.objective.clip_norm / 32561)
    scale = plan.noise_scale(np.arange(1), sensitivity)
    np.testing.assert_allclose(scale, plan.noise_multipliers * sqrt(100 / 67) * sensitivity)
    moments = plan.groups[0].moments
    np.testing.assert_allclose(plan.moments_scale(2.0), moments.noise_multiplier * sqrt(100 / 67) * 2)


class OfOneUpload(ProvedPlan):
    """The second number is that of a single upload, which is nobody's guarantee."""

    @cached_property
    def epsilon_alone(self) -> float | None:
        return spent([(alone(self.groups[0].event), 1)], self.delta).epsilon


class OfAllUploads(ProvedPlan):
    """The second number leaves out the moments."""

    @cached_property
    def epsilon_alone(self) -> float | None:
        return spent([(alone(self.groups[0].event), 10)], self.delta).epsilon


@pytest.mark.parametrize(("kind", "red"), [(ProvedPlan, False), (OfOneUpload, True), (OfAllUploads, True)])
def test_both_numbers_compose_all_releases_moments_included(kind: type[ProvedPlan], red: bool) -> None:
    right = one_cohort(10).plan
    plan = kind(**{key.name: getattr(right, key.name) for key in fields(right)})
    event, moments = plan.groups[0].event, plan.groups[0].moments
    assert isinstance(event, SharedGaussian)
    assert moments is not None
    together = [(Gaussian(event.noise_multiplier), 10), (Gaussian(moments.noise_multiplier), 1)]
    assert 0.999 < spent(together, 1e-5).epsilon <= 1.0
    own = [
        (Gaussian(z / sqrt(67)), count) for z, count in ((event.noise_multiplier, 10), (moments.noise_multiplier, 1))
    ]
    assert ((plan.epsilon_alone or 0) < spent(own, 1e-5).epsilon * (1 - 1e-9)) is red
    assert (plan.epsilon_alone or 0) <= spent(own, 1e-5).epsilon * (1 + 1e-9)


def test_an_owner_caps_what_is_lost_if_everybody_else_colludes() -> None:
    free, capped = experiment(), experiment(privacy__epsilon_alone=1.5)
    assert free.plan.epsilon_alone > 1.5 >= capped.plan.epsilon_alone > 1.4
    assert capped.plan.noise_multipliers[0] > free.plan.noise_multipliers[0]
    loose = experiment(privacy__epsilon_alone=50.0)
    np.testing.assert_array_equal(loose.plan.noise_multipliers, free.plan.noise_multipliers)


def test_the_statement_says_what_it_rests_on_and_what_holds_without_it() -> None:
    summary = run("proved", SMALL).summary
    text = privacy_statement(summary)
    assert "if at most 1 of the 4 members of a record's cohort collude" in text
    assert "any sum holds at least 4 members" in text
    assert summary.epsilon_alone is not None
    assert f"by a client's own noise alone: ({np.ceil(summary.epsilon_alone * 1e4) / 1e4:g}" in text
    assert (summary.clients, summary.participants, summary.cohorts, summary.uploads) == (12, 4, 3, 24)
    plain = run("proved", {**SMALL, "privacy.trust": "each-upload"}).summary
    assert plain.epsilon_alone is None
    assert "own noise alone" not in privacy_statement(plain)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"algorithm.local_steps": 2}, "one local step"),
    ({"algorithm.start": "own"}, "one local step"),
    ({"algorithm.batch_size": 2714}, "on average, 2713.42"),
    ({"algorithm.name": "dp-admm", "run.participants": 12}, "got dp-admm"),
    ({"problem.counts": "clients"}, "count every record the same"),
    ({"run.participants": 5}, "whole cohorts"),
    ({"privacy.cohorts": 6}, "at least 3 members"),
    ({"privacy.threshold": 2, "privacy.colluders": 0}, "from 3 to 4"),
    ({"privacy.threshold": 3, "privacy.colluders": 2}, "from 4 to 4"),
    ({"privacy.threshold": 5}, "smallest cohort, 4, .* got 5"),
    (
        {"partition.clients": 13, "run.participants": 13, "privacy.cohorts": 3, "privacy.threshold": 5},
        "smallest cohort, 4",
    ),
    ({"privacy.trust": "each-upload", "privacy.cohorts": 3}, "privacy.trust = secure-sums"),
    ({"privacy.trust": "each-upload", "run.absence": 0.5}, "privacy.trust = secure-sums"),
    ({"run.min_participants": 2}, "privacy.trust = each-upload"),
    (
        {"run.most_stale": 2},
        "run.most_stale x cohorts of a round must be at least the number of cohorts, 3, .* got 2 x 1",
    ),
    ({"privacy.budget": "round", "privacy.epsilon_alone": 0.4}, "epsilon_alone .* needs privacy.budget = total"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_the_proof_does_not_cover_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        prepare_experiment(config.load("proved", SMALL | changes))


@pytest.mark.parametrize("name", ["fedspd", "dp-sgd", "noisy-prox-gd"])
@pytest.mark.parametrize("engine", ["numpy", "jax"])
def test_every_method_of_gradients_at_the_servers_weights_learns_on_sums(name: str, engine: str) -> None:
    settings = QUIET | ONE | {"algorithm.name": name, "run.engine": engine, "run.rounds": 40}
    assert (run("proved", settings).summary.test_accuracy or 0) > 0.82


def without_noise(made: Any, rounds: int) -> Any:
    simulation = replace(made.simulation, rounds=rounds)

    def drawn(round: int, chosen: np.ndarray) -> Draws:
        given = draw_round(simulation, round, chosen)
        return Draws(given.records, 0 * given.noise)

    capless = replace(simulation.plan, most_participations=np.full(simulation.shards.clients, rounds))
    return simulate(replace(simulation, plan=capless), drawn=drawn)


def small_and_strong(**changes: Any) -> Any:
    """Cohorts that disagree, on few records, with an l1 norm that leaves weights at zero."""
    given = {
        "partition__kind": "dirichlet", "partition__alpha": 0.1, "partition__at_least": 5,
        "problem__clip_norm": 10.0, "algorithm__momentum": 0.0,
        "data__name": "breast-cancer", "problem__strength": 0.02, "algorithm__inverse_step": 0.05,
        "algorithm__penalty": 0.05,
    }  # fmt: skip
    made = experiment(**(given | changes))
    return replace(made, simulation=replace(made.simulation, test=None))


def from_optimal(made: Any, weights: np.ndarray) -> float:
    """How far a proximal step along the gradient of all records would go from here: zero at the optimum alone."""
    shards, objective = made.simulation.shards, made.simulation.algorithm.objective
    gradient = objective.gradient(
        weights[None], shards.features[None], shards.labels[None], np.array([len(shards.labels)])
    )
    return float(np.abs(weights - objective.regularizer.prox(weights - gradient.mean[0], 1.0)).max())


def test_without_noise_the_l1_optimum_of_heterogeneous_cohorts_is_reached() -> None:
    made = small_and_strong()
    found = without_noise(made, 12_000).weights
    assert 0.5 < np.mean(np.abs(found) < 1e-12) < 1  # it has zeros, which a mean of the members' proxes would miss
    assert from_optimal(made, found) < 1e-10


class DeadAtZero(SPDOnSums):
    """A cohort that never answered counts as one whose weights are zero."""

    def merge(self, server: Any, told: Any, replies: Any, previous: Any, present: Any) -> Any:
        right = np.array(super().merge(server, told, replies, previous, present))
        right[[WEIGHTS, MEAN]] *= right[-1] / 3
        return right


def means_of_those_who_answered(algorithm: SPDOnSums) -> list[np.ndarray]:
    """The model after one of three cohorts has replied 6, and after another has replied 2."""
    server, _, previous = algorithm.start(np.zeros((3, 4, 2)))
    models = []
    for number, reply in enumerate((6.0, 2.0)):
        replies = np.stack([np.full((4, 2), reply), np.ones((4, 2))])[None]
        told = algorithm.broadcast(server, 1)
        server = algorithm.merge(server, told, replies, previous[number : number + 1], np.ones(1))
        models.append(np.asarray(algorithm.model(server)))
    return models


def test_a_cohort_that_never_answered_is_left_out_of_the_mean() -> None:
    first, second = means_of_those_who_answered(small_and_strong().simulation.algorithm)
    np.testing.assert_array_equal(first, 6.0)
    np.testing.assert_array_equal(second, 4.0)


def test_planted_a_cohort_that_never_answered_and_counts_as_zero_is_found_out() -> None:
    true: SPDOnSums = small_and_strong().simulation.algorithm
    first, second = means_of_those_who_answered(DeadAtZero(true.objective, true.penalty, true.inverse_step))
    assert not np.allclose(first, 6.0)
    assert not np.allclose(second, 4.0)


@pytest.mark.parametrize("prox_at_members", [False, True])
def test_planted_proximal_steps_at_the_members_miss_the_optimum_and_after_the_sum_they_do_not(
    prox_at_members: bool,
) -> None:
    made = small_and_strong()
    shards, algorithm = made.simulation.shards, made.simulation.algorithm
    features, labels = np.asarray(shards.features), shards.labels
    reach, objective = 2.0, algorithm.objective
    parts = np.array_split(np.argsort(labels, kind="stable"), 4)  # members that disagree
    weights = np.zeros((features.shape[1], 2))
    for _ in range(20_000):
        sums = [
            objective.gradient(weights[None], features[None, own], labels[None, own], np.array([len(labels) / 4])).mean[
                0
            ]
            for own in parts
        ]
        points = sums if prox_at_members else [np.mean(sums, axis=0)]
        weights = np.mean([objective.regularizer.prox(weights - one / reach, 1 / reach) for one in points], axis=0)
    assert (from_optimal(made, weights) < 1e-10) is not prox_at_members


def test_a_cohort_below_its_threshold_changes_nothing_and_stays_charged() -> None:
    outcome = simulate(experiment(run__absence=0.999).simulation)
    np.testing.assert_array_equal(outcome.models, 0.0)
    assert outcome.participations.sum() == 6
    assert outcome.history["epsilon_max"][-1] > 0
    some = simulate(experiment(run__absence=0.3, privacy__threshold=3, privacy__colluders=0).simulation)
    moved = np.linalg.norm(np.diff(some.models, axis=0), axis=(1, 2)) > 0
    assert 0 < moved.sum() < 5


@pytest.mark.parametrize("absence", [0.4, 0.999])
def test_rounds_that_nobody_is_heard_in_leave_the_lagrangian_where_it_was(absence: float) -> None:
    """They crashed at the end of a run, where the last rounds were such."""
    made = experiment(
        run__absence=absence, privacy__threshold=3, privacy__colluders=0, run__seed=0, metrics__lagrangian=True,
        data__name="breast-cancer",
    )  # fmt: skip
    outcome = simulate(made.simulation)
    still = outcome.history["noise_scale"] == 0
    assert still[-1]
    assert not np.diff(outcome.history["alfv"])[still[1:]].any()
    assert np.isfinite(outcome.history["alfv"]).all()


def test_what_arrived_stands_for_the_whole_cohort_and_carries_the_noise_of_those_who_came() -> None:
    made = experiment(run__absence=0.25, privacy__threshold=3, privacy__colluders=0)
    everybody = experiment(privacy__threshold=3, privacy__colluders=0)
    scales, full = (simulate(each.simulation).history["noise_scale"] for each in (made, everybody))
    heard = scales[scales > 0] / full[0]
    with_three = sqrt(3 / 4) * 4 / 3  # less noise in a sum of three, divided by three quarters of the records
    assert any(abs(ratio - with_three) < 0.02 for ratio in heard)
    assert all(abs(ratio - 1) < 1e-9 or abs(ratio - with_three) < 0.02 for ratio in heard)


def test_members_of_a_cohort_are_charged_together_or_not_at_all(tmp_path: Path) -> None:
    create_ledger(tmp_path / "ledger.sqlite")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run("proved", SMALL | {"run.rounds": 1}, ledger=ledger)
        statements = show(ledger)
        charged = [sum(item.times for item in each.charged if item.mechanism == "fedspd") for each in statements]
        assert sorted(charged) == [0] * 8 + [1] * 4
        assert all(isinstance(item.event, SharedGaussian) for each in statements for item in each.charged)
        assert all((each.epsilon_alone or 0) > each.epsilon for each in statements)
