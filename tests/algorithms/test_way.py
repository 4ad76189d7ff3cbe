"""How far a run goes and in which steps: by public numbers, never longer than what bounds allow."""

from dataclasses import replace
from itertools import pairwise
from math import inf, sqrt
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms import METHODS
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.parts.way import (
    Pull,
    clip_norm,
    longest_step,
    momentum_for,
    path_length,
)
from fedspd.assemble.agreement import agree
from fedspd.config import load
from fedspd.data import Holdings
from fedspd.errors import InputError
from fedspd.problem import Huber, LeastSquares, Objective, Softmax, Unregularized
from fedspd.target import Classes
from fedspd.typing import Batches, Release

SHARES = (1.0, 0.5, 0.2, 0.05)
TWO = Classes("label", ("no", "yes"))


def primal_dual(share: float, participants: int = 20) -> Pull:
    return Pull(participants, share, share / (1 + share))


def played(
    algorithm: FedSPD, features: np.ndarray, labels: np.ndarray, rounds: int, participants: int, seed: int = 0
) -> np.ndarray:
    """The server's weights after every round, without noise; every client holds the same records."""
    rng, clients = np.random.default_rng(seed), algorithm.clients
    server, states, replies = algorithm.start(np.zeros((clients, features.shape[1], algorithm.objective.loss.outputs)))
    weights, dual, replies = np.array(states.weights), np.array(states.dual), np.array(replies)
    models = []
    for round in range(1, rounds + 1):
        chosen = rng.permutation(clients)[:participants]
        told = algorithm.broadcast(server, round)
        shape = (participants, 1)
        batches = Batches(
            np.broadcast_to(features, (*shape, *features.shape)), np.broadcast_to(labels, (*shape, len(labels))),
            np.full(participants, float(len(labels))),
        )  # fmt: skip
        state = type(states)(weights[chosen], dual[chosen])
        query, kept = algorithm.query(told, state, batches)
        state, uploads = algorithm.settle(told, state, Release(query.value), kept)  # pyright: ignore[reportAbstractUsage]
        server = algorithm.merge(server, told, uploads, replies[chosen], np.ones(participants))
        weights[chosen], dual[chosen], replies[chosen] = state.weights, state.dual, uploads
        models.append(np.asarray(algorithm.model(server)))
    return np.array(models)


def fedspd(objective: Objective, clients: int, share: float, step: float, momentum: float = 0.0) -> FedSPD:
    dual_share = share / (1 + share)
    return FedSPD(
        objective, clients, dual_share / step, 1, (1 - dual_share) / step, 1.0, momentum=momentum, share=share
    )


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_the_model_goes_as_far_as_the_rule_counts_on(share: float, momentum: float) -> None:
    """On a slope that never changes: residuals beyond Huber's threshold all pull alike."""
    objective = Objective(Huber(1e-6), Unregularized(), inf)
    algorithm = fedspd(objective, 40, share, 1.0, momentum)
    ends = [
        played(algorithm, np.ones((1, 1)), np.ones(1), 40, round(40 * share), seed)[-1, 0, 0]
        for seed in range(1 if share == 1 else round(8 / share))
    ]
    reached = primal_dual(share).reached(40, momentum) * 1e-6
    error = float(np.std(ends)) / sqrt(len(ends))
    assert np.mean(ends) == pytest.approx(reached, rel=1e-9, abs=3 * error)
    assert error < 0.02 * reached


def radius(share: float, step: float, momentum: float, bend: float) -> float:
    """Of the mean of the rounds, on a parabola: the largest factor by which a round stretches an error."""
    dual_share, ahead = share / (1 + share), momentum / share
    here, there = (1 + ahead) * (1 - 2 * step * bend), -ahead * (1 - 2 * step * bend)
    stretch = [
        [1 - share + share * here, share * there, share * step * (2 - 1 / dual_share)],
        [1, 0, 0],
        [share * dual_share * bend * (1 + ahead), -share * dual_share * bend * ahead, 1 - share * dual_share],
    ]
    return float(max(abs(np.linalg.eigvals(np.array(stretch)))))


@pytest.mark.parametrize("share", [*SHARES, 0.01])
@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.6, 0.8, 0.9])
def test_no_allowed_step_with_no_allowed_momentum_stretches_an_error(share: float, momentum: float) -> None:
    objective = Objective(Softmax(2), Unregularized(), 0.5)
    step = longest_step(objective, 1.0, primal_dual(share))
    bends = np.linspace(0, objective.smoothness(1.0), 101)
    assert max(radius(share, step, momentum, bend) for bend in bends) <= 1 + 1e-9
    assert max(radius(share, 2.5 * step, momentum, bend) for bend in bends) > 1 + 1e-3 or momentum == 0


FEDERATIONS = [(1, 1), (5, 5), (5, 1), (10, 2), (10, 1), (20, 4), (20, 1), (50, 5), (100, 20)]


@pytest.mark.parametrize(("clients", "participants"), FEDERATIONS)
@pytest.mark.parametrize("steepness", [1.0, 0.3, 0.1, 0.03, 0.01])
def test_no_records_that_bounds_allow_make_it_diverge(clients: int, participants: int, steepness: float) -> None:
    """Whoever takes part, with the most momentum; at 1 curvature is what the rule counts on."""
    objective = Objective(LeastSquares(of_classes=False), Unregularized(), 1e9)
    pull = primal_dual(participants / clients, participants)
    step = longest_step(objective, 1.0, pull)
    for momentum in (0.0, pull.most_momentum):
        algorithm = fedspd(objective, clients, participants / clients, step, momentum)
        models = played(algorithm, np.full((1, 1), sqrt(steepness)), np.ones(1), 600, participants)
        assert np.max(np.abs(models)) < 10 / sqrt(steepness)
        assert np.max(np.abs(models[-100:] * sqrt(steepness) - 1)) < 0.5


def test_more_momentum_than_that_does_diverge_where_one_of_five_takes_part() -> None:
    objective = Objective(LeastSquares(of_classes=False), Unregularized(), 1e9)
    step = longest_step(objective, 1.0, primal_dual(0.2, 1))
    models = played(fedspd(objective, 5, 0.2, step, 0.9), np.full((1, 1), sqrt(0.1)), np.ones(1), 600, 1)
    assert np.max(np.abs(models)) > 1e3


def test_a_step_beyond_the_bound_does_diverge() -> None:
    objective = Objective(LeastSquares(of_classes=False), Unregularized(), 1e9)
    step = 2.2 * longest_step(objective, 1.0, primal_dual(1.0))
    assert np.max(np.abs(played(fedspd(objective, 4, 1.0, step), np.ones((1, 1)), np.ones(1), 100, 4))) > 1e3


def test_more_noise_never_means_a_longer_way_or_longer_gradients() -> None:
    noises = np.geomspace(1e-6, 10, 60)
    for loss in (Softmax(2), Softmax(26), LeastSquares(of_classes=False)):
        ways = [path_length(Objective(loss, Unregularized(), 0.5), noise, 1.0) for noise in noises]
        clips = [clip_norm(loss, noise, 1.0) for noise in noises]
        assert all(later < earlier for earlier, later in pairwise(ways))
        assert all(later <= earlier for earlier, later in pairwise(clips))
        assert 0.25 <= clips[-1] <= clips[0] <= min(loss.slope_bound, 2.0)


def test_momentum_is_the_least_that_goes_the_way() -> None:
    for pull in (Pull(20, 0.2, None), primal_dual(1.0), primal_dual(0.2)):
        assert momentum_for(pull.reached(50), 50, pull) == 0
        wanted = 1.5 * pull.reached(50)
        found = momentum_for(wanted, 50, pull)
        assert pull.reached(50, found) == pytest.approx(wanted, rel=1e-6)
        assert momentum_for(inf, 50, pull) == pull.most_momentum


def agreed(clients: int, records: int, **settings: Any) -> Any:
    wanted = {"partition.clients": clients, "run.participants": clients}
    wanted |= {name.replace("__", "."): value for name, value in settings.items()}
    return agree(load("proved", wanted), Holdings(np.full(clients, records)), 82, TWO)


@pytest.mark.parametrize("clients", [1, 2, 5, 100, 1000])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 8.0, 100.0])
def test_rounds_stay_within_what_was_asked_and_steps_within_what_is_safe(clients: int, epsilon: float) -> None:
    for most in (1, 25, 300):
        made = agreed(clients, 32561 // clients, privacy__epsilon=epsilon, run__rounds_at_most=most).made
        algorithm = made.algorithm
        assert 1 <= made.rounds <= most
        assert 2 / (algorithm.inverse_step + algorithm.penalty) <= 1 / algorithm.objective.smoothness(1.0) + 1e-12
        assert 0 <= algorithm.momentum <= 0.9


def test_noise_on_the_model_does_not_depend_on_the_number_of_rounds() -> None:
    noises = []
    for most in (60, 120, 240):
        found = agreed(20, 500, privacy__epsilon=0.1, run__rounds=most, algorithm__momentum=0.0)
        algorithm, plan = found.algorithm, found.plan
        each = float(algorithm.sensitivity(1, np.array([500.0]))[0] * plan.noise_multipliers[0])
        noises.append(each * sqrt(most))
    assert noises == pytest.approx([noises[0]] * 3, rel=1e-3)


def test_every_method_that_steps_along_gradients_has_safe_steps_by_rule() -> None:
    for name in ("fedspd", "dp-sgd", "noisy-prox-gd", "dp-admm", "dp-fedavg", "dp-scaffold", "ps-admm", "dp-ftrl"):
        assert METHODS[name].guarantee == "proved"
        made = agreed(5, 6000, algorithm__name=name, privacy__epsilon=8.0).made
        algorithm = made.algorithm
        gamma = (
            getattr(algorithm, "inverse_step", None)
            or algorithm.broadcast(algorithm.start(np.zeros((5, 82, 2)))[0], 1).inverse_step
        )
        assert 1 / (gamma + algorithm.penalty) <= 1 / algorithm.objective.smoothness(1.0) + 1e-12, name


def test_a_replaced_momentum_changes_what_is_sent_and_nothing_else() -> None:
    objective = Objective(Softmax(2), Unregularized(), 0.5)
    plain = fedspd(objective, 4, 1.0, 1.0)
    server = np.stack([np.ones((3, 2)), *np.zeros((7, 3, 2))])
    assert np.array_equal(plain.broadcast(server, 1).weights, np.ones((3, 2)))
    fast = replace(plain, momentum=0.5, share=0.25)
    assert np.array_equal(fast.broadcast(server, 1).weights, 3 * np.ones((3, 2)))
    assert np.array_equal(fast.model(server), plain.model(server))


def test_a_method_of_one_round_takes_no_bound_on_rounds() -> None:
    with pytest.raises(
        InputError, match=r"^run.rounds_at_most would have no effect, got 3; it needs a method with sev"
    ):
        load("proved", {"algorithm.name": "one-shot", "problem.regularizer": "squared-l2", "run.rounds_at_most": 3})
