"""Poisson sampling under zero-out neighbors, and the price of oversized batches."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from fedspd.errors import InputError
from fedspd.privacy.accounting import FixedSize, Gaussian, Poisson, calibrate, delta_at, spent
from fedspd.privacy.accounting.distributions.pld import pld_epsilon
from fedspd.privacy.accounting.events import relative_distances


def several_steps(max_batch: int, multiplier: float = 3.0) -> Poisson:
    return Poisson(multiplier, 0.15, 5, 0.95, records=325, batch_size=10, max_batch=max_batch)


@pytest.mark.parametrize(
    ("multiplier", "rate", "rounds", "delta"),
    [(2.53, 50 / 325, 20, 1e-4), (1.0, 0.01, 300, 1e-5), (0.7, 0.3, 5, 1e-6)],
)
def test_one_step_agrees_with_dp_accounting(multiplier: float, rate: float, rounds: int, delta: float) -> None:
    reference = PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_SPECIAL, 1e-4)
    release = dp_accounting.GaussianDpEvent(multiplier)
    reference.compose(dp_accounting.PoissonSampledDpEvent(rate, release), rounds)
    bound = spent({Poisson(multiplier, rate): rounds}, delta)
    assert bound.epsilon == pytest.approx(reference.get_epsilon(delta), rel=1e-4)
    assert bound.lower_bound is not None
    assert 0.99 * bound.epsilon < bound.lower_bound <= bound.epsilon
    assert (bound.accountant, bound.relation) == ("pld", "zero-out")


def test_epsilon_one_needs_the_multiplier_of_the_theory() -> None:
    # an independent prototype: z 2.53 for q = 50/325, n = 20, delta 1e-4.
    assert calibrate(lambda z: Poisson(z, 50 / 325), 20, 1.0, 1e-4) == pytest.approx(2.53, abs=5e-3)


def test_oversized_batches_are_charged_to_delta() -> None:
    event, rounds, epsilon = several_steps(34), 20, 0.6
    without = delta_at({several_steps(325): rounds}, epsilon)
    chance = rounds * 5 * binom.sf(34, 325, 0.15 / 5)
    charged = (1.0 + math.exp(epsilon)) * chance
    assert charged > 1e-9
    assert delta_at({event: rounds}, epsilon) == pytest.approx(without + charged, rel=1e-6)


def test_the_epsilon_of_several_steps_includes_the_charge() -> None:
    history = {several_steps(30): 20}
    bound = spent(history, 1e-4)
    assert bound.epsilon > spent({several_steps(325): 20}, 1e-4).epsilon
    assert delta_at(history, bound.epsilon) <= 1e-4 * (1 + 1e-4)
    assert delta_at(history, bound.epsilon * 0.999) > 1e-4
    assert bound.lower_bound is None


def test_a_batch_bound_that_is_often_broken_leaves_no_finite_epsilon() -> None:
    assert spent({several_steps(20): 20}, 1e-4).epsilon == math.inf


@pytest.mark.parametrize("epsilon", [0.05, 0.2, 0.6])
def test_aligned_gradients_with_a_random_step_stay_below_the_bound(epsilon: float) -> None:
    # The worst case: the record's gradient points the same way at every step, so the query is a mixture
    # of Gaussians along one line.
    event = several_steps(325, multiplier=0.8)
    distances = relative_distances(5, 0.95)
    outputs = np.linspace(-8.0, 10.0, 200_001)
    absent = norm.pdf(outputs, 0.0, 0.8)
    present = 0.85 * absent + 0.15 * np.mean([norm.pdf(outputs, d, 0.8) for d in distances], axis=0)
    for first, second in ((present, absent), (absent, present)):
        reached = np.trapezoid(np.maximum(first - math.exp(epsilon) * second, 0.0), outputs)
        assert reached <= delta_at({event: 1}, epsilon)
    assert delta_at({event: 1}, epsilon) < delta_at({Poisson(0.8, 0.15): 1}, epsilon)


def test_a_zero_out_release_composes_with_poisson_rounds() -> None:
    rounds = {Poisson(2.53, 50 / 325): 20}
    both = spent([*rounds.items(), (Gaussian(20.0, "zero-out"), 1)], 1e-4).epsilon
    assert spent(rounds, 1e-4).epsilon < both < spent(rounds, 1e-4).epsilon + 0.2


@pytest.mark.parametrize("other", [FixedSize(5.0, 325, 50), Gaussian(5.0)])
def test_events_under_different_relations_are_refused_together(other: FixedSize | Gaussian) -> None:
    for accountant in ("pld", "rdp"):
        with pytest.raises(InputError, match="expected one neighbor relation"):
            spent([(Poisson(2.53, 0.1), 1), (other, 1)], 1e-5, accountant)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.7, 20.0), st.integers(1, 50), st.floats(0.01, 0.9), st.floats(1.01, 2.0))
def test_epsilon_is_monotone(multiplier: float, rounds: int, rate: float, factor: float) -> None:
    def epsilon(multiplier: float, rounds: int, rate: float) -> float:
        return pld_epsilon({Poisson(multiplier, rate): rounds}, 1e-5)

    base, slack, tiny = epsilon(multiplier, rounds, rate), 1.0 + 1e-5, 1e-6
    assert epsilon(multiplier * factor, rounds, rate) <= base * slack + tiny
    assert epsilon(multiplier, rounds + 1, rate) * slack + tiny >= base
    assert epsilon(multiplier, rounds, min(1.0, rate * factor)) * slack + tiny >= base
