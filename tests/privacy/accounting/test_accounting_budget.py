"""Budgets: calibration rounds up, counts are the largest that fit, filters hold for adaptive choices."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from fedspd.errors import InputError
from fedspd.privacy.accounting import (
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    calibrate,
    delta_at,
    fits_adaptively,
    participations_that_fit,
    spent,
)
from fedspd.privacy.accounting.closed_form.gaussian import gaussian_delta

MAKERS: list[Callable[[float], Event]] = [
    Gaussian,
    lambda z: Laplace(z, 1e-4),
    lambda z: FixedSize(z, 325, 50),
    lambda z: FixedSize(z, 325, 50, 5, 0.95),
    lambda z: Poisson(z, 0.1),
]


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(MAKERS), st.integers(1, 60), st.floats(0.03, 20.0), st.sampled_from([1e-4, 1e-6]))
def test_a_calibrated_multiplier_fits_and_the_next_smaller_one_does_not(
    make: Callable[[float], Event], participations: int, epsilon: float, delta: float
) -> None:
    found = calibrate(make, participations, epsilon, delta)
    assert found == float(f"{found:.4e}")
    assert spent({make(found): participations}, delta).epsilon <= epsilon
    smaller = found - 10.0 ** (math.floor(math.log10(found)) - 4)
    assert spent({make(smaller): participations}, delta).epsilon > epsilon


def test_what_was_spent_before_is_part_of_the_budget() -> None:
    history = {Gaussian(20.0): 1}
    alone = calibrate(lambda z: FixedSize(z, 325, 50), 20, 1.0, 1e-4)
    after = calibrate(lambda z: FixedSize(z, 325, 50), 20, 1.0, 1e-4, history)
    assert after > alone
    assert spent([(FixedSize(after, 325, 50), 20), *history.items()], 1e-4).epsilon <= 1.0


def test_no_multiplier_helps_when_the_budget_is_spent() -> None:
    for accountant in ("pld", "rdp"):
        with pytest.raises(InputError, match="raise the budget"):
            calibrate(Gaussian, 1, 0.5, 1e-5, history={Gaussian(3.0): 1}, accountant=accountant)
    with pytest.raises(InputError, match="at least one participation"):
        calibrate(Gaussian, 0, 1.0, 1e-5)
    with pytest.raises(InputError, match="raise the budget"):
        calibrate(lambda z: Laplace(z, 0.01), 1, 0.5, 1e-5, history={Laplace(1.0): 1})


def test_what_no_noise_can_lower_the_jacobian_of_pure_releases_is_refused_if_it_alone_exceeds_the_budget() -> None:
    def event(jacobian: float) -> Callable[[float], Laplace]:
        return lambda multiplier: Laplace(multiplier, jacobian)

    for accountant in ("pld", "rdp"):
        with pytest.raises(InputError, match=r"got 0\.12 for each, .*; raise algorithm\.penalty"):
            calibrate(event(0.12), 10, 1.0, 1e-5, accountant=accountant)
    found = calibrate(event(0.09), 10, 1.0, 1e-5)
    assert (
        spent({Laplace(found, 0.09): 10}, 1e-5).epsilon <= 1.0 < spent({Laplace(0.999 * found, 0.09): 10}, 1e-5).epsilon
    )


@pytest.mark.parametrize("event", [Gaussian(30.0), Laplace(40.0), FixedSize(2.7, 325, 50), Poisson(2.6, 50 / 325)])
def test_one_more_participation_than_fits_would_exceed_the_budget(event: Event) -> None:
    release = Gaussian(30.0, event.relation)
    count = participations_that_fit(event, {release: 1}, 1.0, 1e-4)
    assert count > 0

    def epsilon(count: int) -> float:
        return spent([(release, 1), (event, count)], 1e-4).epsilon

    assert epsilon(count) <= 1.0 < epsilon(count + 1)


def test_nothing_fits_into_a_spent_budget_and_almost_everything_into_a_huge_one() -> None:
    assert participations_that_fit(Gaussian(5.0), {Gaussian(1.0): 1}, 1.0, 1e-5) == 0
    assert participations_that_fit(Gaussian(1.0), {}, 1.0, 1e-5) == 0
    assert participations_that_fit(Gaussian(1e6), {}, 1.0, 1e-5) == 100_000
    rounds = FixedSize(5.03, 325, 50)
    assert participations_that_fit(rounds, {}, 1.0, 1e-4, accountant="rdp") == 20


def attained_profile(event: Gaussian | FixedSize, alpha: float) -> float:
    """The delta that one round attains at exp(epsilon) = alpha, by the better of its two orders."""
    if alpha < 1.0:
        return 1.0 - alpha + alpha * attained_profile(event, 1.0 / alpha)
    rate = event.drawn / event.records if isinstance(event, FixedSize) else 1.0
    return rate * gaussian_delta(event.noise_multiplier, math.log1p((alpha - 1.0) / rate))


def adaptive_delta(first: Gaussian, choices: Sequence[Gaussian | FixedSize], epsilon: float) -> float:
    """What an adversary reaches who picks the second event by the loss of the first."""
    mean, deviation = 0.5 / first.noise_multiplier**2, 1.0 / first.noise_multiplier
    losses = np.linspace(mean - 8 * deviation, mean + 8 * deviation, 2001)
    best = [max(attained_profile(event, math.exp(epsilon - loss)) for event in choices) for loss in losses]
    return float(np.trapezoid(best * norm.pdf(losses, mean, deviation), losses))


def test_recomposing_adaptively_chosen_events_is_no_bound_but_the_filter_is() -> None:
    epsilon, delta, first = 1.0, 1e-3, Gaussian(4.0)

    def rare(multiplier: float) -> FixedSize:
        return FixedSize(multiplier, 20, 1)

    recomposed = [make(calibrate(make, 1, epsilon, delta, {first: 1})) for make in (Gaussian, rare)]
    assert adaptive_delta(first, recomposed, epsilon) > 1.4 * delta
    # The least noise, on a grid of 2 %, with which the filter lets each kind of event pass.
    grid = [0.2 * 1.02**step for step in range(300)]
    filtered = [
        next(event for z in grid if fits_adaptively({first: 1, (event := make(z)): 1}, epsilon, delta))
        for make in (Gaussian, rare)
    ]
    assert adaptive_delta(first, filtered, epsilon) <= delta


@pytest.mark.parametrize("event", [Gaussian(30.0), Laplace(80.0), FixedSize(2.607, 325, 50), Poisson(2.54, 50 / 325)])
def test_the_filter_admits_less_than_a_fixed_plan_but_most_of_it(event: Event) -> None:
    planned = participations_that_fit(event, {}, 1.0, 1e-4)
    adaptive = participations_that_fit(event, {}, 1.0, 1e-4, adaptive=True)
    assert 0.6 * planned <= adaptive <= planned
    assert spent({event: adaptive}, 1e-4).epsilon <= 1.0


def test_the_filter_refuses_batches_that_are_often_oversized() -> None:
    def event(max_batch: int) -> Poisson:
        return Poisson(20.0, 0.15, 5, 0.95, records=325, batch_size=10, max_batch=max_batch)

    assert fits_adaptively({event(325): 1}, 1.0, 1e-4)
    assert not fits_adaptively({event(20): 1}, 1.0, 1e-4)
    assert fits_adaptively({}, 1.0, 1e-4)


@pytest.mark.parametrize("history", [{"gaussian": 1}, [(3.0, 1)], [({"kind": "with-replacement"}, 1)]])
def test_what_is_no_event_is_refused(history: Any) -> None:
    with pytest.raises(InputError, match="no accountant has a proof for it"):
        spent(history, 1e-5)


def test_bad_numbers_are_refused_at_the_door() -> None:
    history = {Gaussian(3.0): 1}
    for delta in (0.0, 1.0, -1e-5, float("nan")):
        with pytest.raises(InputError, match="delta must lie in"):
            spent(history, delta)
    for epsilon in (-1.0, float("inf"), float("nan")):
        with pytest.raises(InputError, match="epsilon must be finite"):
            delta_at(history, epsilon)
    for count in (-1, 1.5, True):
        with pytest.raises(InputError, match="participations must be a whole number"):
            spent([(Gaussian(3.0), count)], 1e-5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="accountant must be one of"):
        spent(history, 1e-5, "moments")  # pyright: ignore[reportArgumentType]
