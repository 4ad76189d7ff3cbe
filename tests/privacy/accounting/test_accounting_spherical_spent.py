"""Pure noise in many dimensions: what several releases leak together, and how much noise a budget needs."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.fft import irfft, rfft
from numpy.typing import NDArray

from fedspd.privacy.accounting import (
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    calibrate,
    delta_at,
    fits_adaptively,
    spent,
)
from fedspd.privacy.accounting.closed_form.gaussian import gaussian_delta
from fedspd.privacy.accounting.distributions.profiles import dominating, positive_losses
from fedspd.privacy.accounting.renyi import pair_log_moment

Floats = NDArray[np.float64]


def release(multiplier: float, dimension: int, directions: int, jacobian: float = 0.0) -> Laplace:
    return Laplace(multiplier, jacobian, dimension=dimension, directions=directions)


def of_size(dimension: int, directions: int, jacobian: float = 0.0) -> Callable[[float], Laplace]:
    return lambda multiplier: release(multiplier, dimension, directions, jacobian)


def longer(norms: Floats, cosines: Floats, multiplier: float) -> Floats:
    return np.sqrt(norms**2 + 2.0 * norms * cosines / multiplier + multiplier**-2.0) - norms


def sampled_delta(event: Laplace, rounds: int, epsilon: float, signs: bool) -> float:
    """Delta of a sum of sampled losses: the largest of them with both signs, or all of them as they are."""
    rng, samples = np.random.default_rng(3), 1_000_000
    dimension, directions = event.dimension or 0, event.directions or 0
    cosines = np.sqrt(rng.beta(0.5 * directions, 0.5 * (dimension - directions), size=samples))
    losses = longer(rng.gamma(dimension, size=samples), cosines, event.noise_multiplier) + event.jacobian
    spacing = float(losses.std()) / 200.0
    chances = np.full(samples, 1.0 / samples)
    if signs:
        losses = np.sort(losses)[::-1]
        losses = losses[: int(np.searchsorted(np.cumsum(1.0 + np.exp(-losses)), samples))]
        chances = np.concatenate([np.ones(len(losses)), np.exp(-losses)]) / samples
        losses = np.concatenate([losses, -losses])
    size, middle = 1 << 18, 1 << 17
    assert rounds * float(np.abs(losses).max()) < middle * spacing
    steps = np.rint(losses / spacing).astype(np.int64)
    total = irfft(rfft(np.bincount(steps % size, weights=chances, minlength=size)) ** rounds, size)
    sums = spacing * ((np.arange(size) + middle) % size - middle)
    return float(np.dot(total, np.maximum(-np.expm1(np.minimum(epsilon - sums, 0.0)), 0.0)))


@pytest.mark.parametrize("event", [release(1.0, 81, 1), release(2.0, 162, 2), release(1.0, 162, 2, 0.02)])
@pytest.mark.parametrize("rounds", [1, 5, 20])
def test_many_releases_leak_what_a_sum_of_sampled_losses_does(event: Laplace, rounds: int) -> None:
    epsilon = 2.0 * math.sqrt(rounds) / (event.noise_multiplier * math.sqrt(event.dimension or 0))
    found = delta_at({event: rounds}, epsilon)
    expected = sampled_delta(event, rounds, epsilon, signs=True)
    assert found == pytest.approx(expected, rel=0.02)
    assert found <= sampled_delta(event, rounds, epsilon, signs=False) * 1.02
    less = release(event.noise_multiplier / 1.05, event.dimension or 0, event.directions or 0, event.jacobian)
    assert sampled_delta(less, rounds, epsilon, signs=True) > 1.05 * expected


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 500), st.floats(-1.5, 2.0), st.floats(0.0, 0.1), st.integers(1, 40),
    st.sampled_from([1e-2, 1e-5, 1e-30]), st.sampled_from(["pld", "rdp"]), st.data(),
)  # fmt: skip
def test_a_known_dimension_never_costs_more_than_an_unknown_one_and_more_dimensions_never_more_than_fewer(
    dimension: int, exponent: float, jacobian: float, count: int, delta: float, accountant: str, data: st.DataObject
) -> None:
    multiplier, directions = 10.0**exponent, data.draw(st.integers(1, min(3, dimension - 1)))
    events = [
        release(multiplier, 2 * dimension, directions, jacobian),
        release(multiplier, dimension, directions, jacobian),
        Laplace(multiplier, jacobian),
    ]
    costs = [spent({event: count}, delta, accountant).epsilon for event in events]  # pyright: ignore[reportArgumentType]
    assert costs[1] <= costs[2] * (1 + 1e-9)
    assert costs[0] <= costs[1] * 1.01 + 1e-9
    epsilon = 0.7 * costs[2]
    assert delta_at({events[1]: count}, epsilon) <= delta_at({events[2]: count}, epsilon)
    assert delta_at({events[1]: count}, count * events[1].epsilon * (1 + 1e-12)) == 0.0


@pytest.mark.parametrize("rounds", [1, 20])
def test_in_very_many_dimensions_noise_is_nearly_gaussian(rounds: int) -> None:
    dimension = 100_000
    multiplier = math.sqrt(rounds / dimension)
    for epsilon in (2.0, 3.0, 4.0):
        gaussian = gaussian_delta(1.0, epsilon)
        found = delta_at({release(multiplier, dimension, 1): rounds}, epsilon)
        # The bound forgets the sign of one cosine: a factor of two, and with many rounds a larger deviation.
        assert gaussian < found
        if rounds == 1:
            assert found < 2.03 * gaussian
        else:
            assert found < gaussian_delta(1.0 / 1.4, epsilon)


def test_the_jacobian_of_each_release_is_added() -> None:
    plain, charged = release(2.0, 162, 2), release(2.0, 162, 2, 0.03)
    once = spent({plain: 1}, 1e-5).epsilon
    assert spent({charged: 1}, 1e-5).epsilon == pytest.approx(once + 0.03, rel=1e-4)
    for rounds in (5, 20):
        without, total = spent({plain: rounds}, 1e-5).epsilon, spent({charged: rounds}, 1e-5).epsilon
        assert without + 0.03 * math.sqrt(rounds) < total < without + 0.031 * rounds


def gaussian_profile(multiplier: float, epsilon: float) -> float:
    if epsilon >= 0.0:
        return gaussian_delta(multiplier, epsilon)
    return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(multiplier, -epsilon)


@pytest.mark.parametrize("epsilon", [0.2, 0.9])
def test_with_a_gaussian_release_the_profiles_are_mixed(epsilon: float) -> None:
    event = release(0.8, 81, 2, 0.01)
    losses, masses = positive_losses(dominating(event, "removal"))
    parts = [mass * gaussian_profile(3.0, epsilon - loss) for loss, mass in zip(losses, masses, strict=True)]
    parts += [
        mass * math.exp(-loss) * gaussian_profile(3.0, epsilon + loss)
        for loss, mass in zip(losses, masses, strict=True)
    ]
    exact = math.fsum(parts)
    assert exact * (1 - 1e-9) <= delta_at([(event, 1), (Gaussian(3.0), 1)], epsilon) <= exact * 1.0005


def test_other_rounds_beside_them_cost_no_more_than_beside_releases_of_unknown_dimension() -> None:
    for other in (FixedSize(2.0, 325, 50), Poisson(2.0, 0.15)):
        alone = spent({other: 10}, 1e-5).epsilon
        known = spent([(other, 10), (Laplace(8.0, 0.001, other.relation, 162, 2), 10)], 1e-5).epsilon
        unknown = spent([(other, 10), (Laplace(8.0, 0.001, other.relation), 10)], 1e-5).epsilon
        assert alone < known < 0.9 * unknown


@pytest.mark.parametrize("tilt", [1e-3, 0.5, 3.0, 60.0])
def test_the_renyi_moment_is_that_of_the_listed_losses_and_at_most_that_of_randomized_response(tilt: float) -> None:
    event = release(2.0, 162, 2, 0.01)
    losses, masses = positive_losses(dominating(event, "removal"))
    assert math.fsum(masses * (1.0 + np.exp(-losses))) == pytest.approx(1.0, abs=1e-12)
    moment = math.log(math.fsum(masses * (np.exp(tilt * losses) + np.exp(-(tilt + 1.0) * losses))))
    found = pair_log_moment(dominating(event, "removal"), tilt)
    assert found == pytest.approx(moment, rel=1e-6, abs=1e-11)
    assert found <= pair_log_moment(dominating(Laplace(2.0, 0.01), "removal"), tilt)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(
    st.sampled_from([
        release(2.0, 162, 2), release(5.0, 81, 1, 0.001), release(30.0, 10, 2), Laplace(50.0), Gaussian(30.0),
        FixedSize(4.0, 325, 50),
    ]), st.integers(1, 25), min_size=1,
))  # fmt: skip
def test_what_the_filter_accepts_is_within_what_is_spent(history: dict[Event, int]) -> None:
    if fits_adaptively(history, 1.0, 1e-4):
        assert spent(history, 1e-4).epsilon <= 1.0


def test_the_filter_accepts_far_more_releases_of_known_dimension() -> None:
    assert fits_adaptively({release(4.0, 162, 2): 20}, 1.0, 1e-5)
    assert not fits_adaptively({Laplace(4.0): 20}, 1.0, 1e-5)
    assert not fits_adaptively({release(1.5, 162, 2): 20}, 1.0, 1e-5)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize(("participations", "history"), [(1, {}), (5, {Gaussian(20.0): 1}), (100, {Gaussian(20.0): 1})])
def test_a_calibrated_multiplier_meets_the_budget_and_the_next_smaller_one_does_not(
    accountant: str, participations: int, history: dict[Gaussian, int]
) -> None:
    make = of_size(162, 2, 1e-3)
    found = calibrate(make, participations, 1.0, 1e-5, history, accountant)  # pyright: ignore[reportArgumentType]
    smaller = float(f"{found * (1.0 - 1.2e-4):.4e}")
    costs = [
        spent([*history.items(), (make(multiplier), participations)], 1e-5, accountant).epsilon  # pyright: ignore[reportArgumentType]
        for multiplier in (found, smaller, 0.5 * found)
    ]
    assert costs[0] <= 1.0 < costs[1] < costs[2]
    assert found < 0.4 * calibrate(lambda z: Laplace(z, 1e-3), participations, 1.0, 1e-5, history)


def test_on_fine_steps_epsilon_falls_as_noise_grows() -> None:
    for start in (0.05, 0.3, 2.3):
        costs = [spent({release(start * (1 + 1e-4) ** step, 162, 2): 5}, 1e-5).epsilon for step in range(12)]
        assert costs == sorted(costs, reverse=True)
