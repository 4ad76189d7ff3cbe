"""Pure releases: dominated by randomized response, composed exactly, and never above the sum of their epsilons."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

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
    spent,
)
from fedspd.privacy.accounting.closed_form.gaussian import gaussian_delta
from fedspd.privacy.accounting.distributions.discretize import pessimistic
from fedspd.privacy.accounting.distributions.profiles import dominating
from fedspd.privacy.accounting.renyi import pair_log_moment

Floats = NDArray[np.float64]


def homogeneous(count: int, epsilon: float) -> list[tuple[float, float]]:
    """Kairouz, Oh & Viswanath (2015), theorem 3.3: the (epsilon, delta) at its corners."""
    corners = []
    for index in range(count // 2 + 1):
        gaps = [
            math.comb(count, lost)
            * (math.exp((count - lost) * epsilon) - math.exp((count - 2 * index + lost) * epsilon))
            for lost in range(index)
        ]
        corners.append(((count - 2 * index) * epsilon, math.fsum(gaps) / (1.0 + math.exp(epsilon)) ** count))
    return corners


def all_signs(epsilons: list[float]) -> tuple[Floats, Floats]:
    """The loss and the chance of every outcome of randomized responses, one by one."""
    losses, chances = np.zeros(1), np.ones(1)
    for epsilon in epsilons:
        truth = math.exp(epsilon) / (1.0 + math.exp(epsilon))
        losses = np.concatenate([losses + epsilon, losses - epsilon])
        chances = np.concatenate([chances * truth, chances * (1.0 - truth)])
    return losses, chances


def brute_delta(epsilons: list[float], epsilon: float) -> float:
    losses, chances = all_signs(epsilons)
    above = losses > epsilon
    return math.fsum(chances[above] * -np.expm1(epsilon - losses[above]))


@pytest.mark.parametrize(("count", "epsilon"), [(1, 1.0), (2, 0.5), (7, 0.3), (20, 0.1), (100, 0.05), (9, 3.0)])
def test_equal_releases_compose_as_in_the_theorem_of_kairouz_oh_and_viswanath(count: int, epsilon: float) -> None:
    history = {Laplace(1.0 / epsilon): count}
    for total, delta in homogeneous(count, epsilon):
        assert delta * (1 - 1e-13) <= delta_at(history, total) <= delta * (1 + 1e-10) + 1e-16
        if 0.0 < delta < 0.5:
            bound = spent(history, delta)
            assert total * (1 - 1e-12) <= bound.epsilon <= total * (1 + 1e-8) + 1e-11
            assert (bound.accountant, bound.relation, bound.lower_bound) == ("pld", "replace-one", None)


# Eighteen different releases have more outcomes than are listed, so they go to a grid.
@pytest.mark.parametrize("epsilons", [[0.5], [0.5, 0.3], [0.1, 0.1, 0.7, 1.3], [0.05 + 0.031 * i for i in range(18)]])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
def test_different_releases_compose_like_all_their_outcomes(epsilons: list[float], share: float) -> None:
    history = [(Laplace(1.0 / epsilon), 1) for epsilon in epsilons]
    epsilon = share * math.fsum(epsilons)
    exact = brute_delta(epsilons, epsilon)
    assert exact * (1 - 1e-12) <= delta_at(history, epsilon) <= exact * (1 + 3e-5)
    if exact > 1e-30 and epsilon > 0.0:
        assert epsilon * (1 - 1e-12) <= spent(history, exact).epsilon <= epsilon * (1 + 1e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.5, 200.0), st.floats(0.0, 0.2), st.integers(1, 30)), min_size=1, max_size=4),
    st.sampled_from([1e-2, 1e-5, 1e-12, 1e-60]),
    st.sampled_from(["pld", "rdp"]),
)
def test_at_any_delta_epsilon_is_at_most_the_sum_of_the_epsilons(
    releases: list[tuple[float, float, int]], delta: float, accountant: str
) -> None:
    history = [(Laplace(multiplier, jacobian), count) for multiplier, jacobian, count in releases]
    total = math.fsum(count * event.epsilon for event, count in history)
    found = spent(history, delta, accountant).epsilon  # pyright: ignore[reportArgumentType]
    assert found <= total * (1 + 1e-14)
    assert delta_at(history, total * (1 + 1e-14), accountant) == 0.0  # pyright: ignore[reportArgumentType]
    assert found >= max(event.epsilon for event, _ in history) - 2.1 * delta


def test_releases_whose_epsilons_add_up_to_less_than_the_budget_stay_within_it() -> None:
    few, many = {Laplace(10.0): 9}, {Laplace(1000.0): 900}
    assert 0.88 < spent(few, 1e-5).epsilon <= 0.9
    assert spent(many, 1e-5).epsilon < 0.15  # and many small ones far more so


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 8.0), st.floats(1e-3, 3.0))
def test_on_any_grid_the_two_losses_are_a_distribution_above_their_profile(epsilon: float, spacing: float) -> None:
    masses = pessimistic(dominating(Laplace(1.0 / epsilon), "removal"), spacing, 1e-12)
    losses = masses.losses
    assert math.fsum(masses.masses) == pytest.approx(1.0, abs=1e-12)
    assert math.fsum(masses.masses * np.exp(-losses)) == pytest.approx(1.0, abs=1e-9)
    for at in (-0.7 * epsilon, 0.0, 0.3 * epsilon, 0.99 * epsilon):
        found = math.fsum(masses.masses * np.maximum(-np.expm1(at - losses), 0.0))
        profile = (math.exp(epsilon) - math.exp(at)) / (1.0 + math.exp(epsilon))
        assert found >= profile - 1e-12
    assert losses[masses.masses > 1e-9].max() < epsilon * (1 + 1e-9) + spacing


def gaussian_profile(multiplier: float, epsilon: float) -> float:
    """Also for a negative epsilon, by swapping the pair."""
    if epsilon >= 0.0:
        return gaussian_delta(multiplier, epsilon)
    return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(multiplier, -epsilon)


@pytest.mark.parametrize("epsilons", [[0.3] * 6, [0.3, 0.3, 0.17, 0.4]])
@pytest.mark.parametrize("multiplier", [0.8, 4.0, 50.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.8, 1.5])
def test_with_a_gaussian_release_the_two_profiles_are_mixed(
    epsilons: list[float], multiplier: float, epsilon: float
) -> None:
    losses, chances = all_signs(epsilons)
    exact = math.fsum(chances * [gaussian_profile(multiplier, epsilon - loss) for loss in losses])
    found = delta_at([*((Laplace(1.0 / each), 1) for each in epsilons), (Gaussian(multiplier), 1)], epsilon)
    assert exact * (1 - 1e-9) <= found <= exact * 1.0002 + 1e-43


def test_with_rounds_of_a_random_subset_the_two_profiles_are_mixed() -> None:
    event, release, epsilon = FixedSize(1.2, 40, 8), Laplace(1.5), 0.7

    def one_round(epsilon: float) -> float:
        if epsilon >= 0.0:
            return delta_at({event: 1}, epsilon)
        return -math.expm1(epsilon) + math.exp(epsilon) * delta_at({event: 1}, -epsilon)

    losses, chances = all_signs([release.epsilon] * 3)
    exact = math.fsum(chances * [one_round(epsilon - loss) for loss in losses])
    assert exact * (1 - 1e-3) <= delta_at([(event, 1), (release, 3)], epsilon) <= exact * 1.001


@settings(max_examples=15, deadline=None)
@given(
    st.floats(0.5, 100.0), st.floats(0.0, 0.1), st.integers(1, 40),
    st.sampled_from([Gaussian(1.0), Gaussian(300.0), FixedSize(2.0, 325, 50)]), st.sampled_from([1e-3, 1e-6]),
)  # fmt: skip
def test_mixed_histories_cost_no_less_than_either_part_and_no_more_than_the_sum(
    multiplier: float, jacobian: float, count: int, other: Event, delta: float
) -> None:
    event, slack = Laplace(multiplier, jacobian), 1.0 + 5e-5
    rest = spent({other: 4}, delta).epsilon
    both = spent([(event, count), (other, 4)], delta)
    assert both.epsilon * slack >= max(rest, spent({event: count}, delta).epsilon)
    assert both.epsilon <= (count * event.epsilon + rest) * slack
    assert both.lower_bound is None


def test_pure_releases_compose_with_poisson_rounds_in_both_orders() -> None:
    rounds, release, epsilon = Poisson(1.0, 0.2), Laplace(2.0, 0.0, "zero-out"), 0.6

    def one_round(alpha: float) -> float:
        """The order `removal`; docs/accounting.md, Theorem A3."""
        inner = 1.0 + (alpha - 1.0) / 0.2
        return 0.2 * gaussian_profile(1.0, math.log(inner)) if inner > 0.0 else 1.0 - alpha

    losses, chances = all_signs([0.5, 0.5])
    alphas = np.exp(epsilon - losses)
    removal = math.fsum(chances * [one_round(alpha) for alpha in alphas])
    addition = math.fsum(chances * [1.0 - alpha + alpha * one_round(1.0 / alpha) for alpha in alphas])
    exact = max(removal, addition)
    assert exact * (1 - 1e-9) <= delta_at([(rounds, 1), (release, 2)], epsilon) <= exact * 1.001


@pytest.mark.parametrize("other", [Gaussian(5.0), FixedSize(5.0, 325, 50), Laplace(5.0)])
def test_events_under_different_relations_are_refused_together(other: Event) -> None:
    for accountant in ("pld", "rdp"):
        with pytest.raises(InputError, match="expected one neighbor relation"):
            spent([(Laplace(2.0, 0.0, "zero-out"), 1), (other, 1)], 1e-5, accountant)
    with pytest.raises(InputError, match="expected one neighbor relation"):
        fits_adaptively([(Laplace(2.0, 0.0, "zero-out"), 1), (other, 1)], 1.0, 1e-5)


def test_the_jacobian_is_counted_like_any_other_loss() -> None:
    for accountant in ("pld", "rdp"):
        split = spent({Laplace(4.0, 0.25): 6}, 1e-5, accountant).epsilon
        assert split == spent({Laplace(2.0): 6}, 1e-5, accountant).epsilon
        assert split > 1.5 * spent({Laplace(4.0): 6}, 1e-5, accountant).epsilon
    noise = calibrate(Laplace, 20, 1.0, 1e-5)
    assert calibrate(lambda z: Laplace(z, 0.01), 20, 1.0, 1e-5) == pytest.approx(1.0 / (1.0 / noise - 0.01), rel=1e-4)


def test_one_calibrated_release_takes_hardly_more_than_the_budget_for_its_epsilon() -> None:
    # By hand: delta = (e^e0 - e^epsilon) / (1 + e^e0) for one release of epsilon e0.
    largest = math.log((math.e + 1e-3) / (1.0 - 1e-3))
    found = calibrate(Laplace, 1, 1.0, 1e-3)
    assert 1.0 / largest <= found <= 1.0001 / largest


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 4.0, 300.0])
@pytest.mark.parametrize("tilt", [1e-3, 0.5, 3.0, 500.0])
def test_the_renyi_moment_is_that_of_randomized_response(epsilon: float, tilt: float) -> None:
    log_moment = np.logaddexp((tilt + 1.0) * epsilon, -tilt * epsilon) - np.logaddexp(0.0, epsilon)
    found = pair_log_moment(dominating(Laplace(1.0 / epsilon), "removal"), tilt)
    assert log_moment - 1e-14 <= found <= log_moment * (1 + 1e-8) + 1e-12


def laplace_losses(multiplier: float) -> tuple[Floats, Floats]:
    """Loss and chance of real Laplace noise in one dimension, cells of the output merged: a lower bound."""
    edges = np.concatenate([[-np.inf], np.linspace(0.0, 1.0, 201), [np.inf]])

    def below(shift: float) -> Floats:
        away = (edges - shift) / multiplier
        return np.where(away < 0.0, 0.5 * np.exp(np.minimum(away, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(away, 0.0)))

    first, second = np.diff(below(0.0)), np.diff(below(1.0))
    return np.log(first / second), first


def realized(multiplier: float, rounds: int, epsilon: float) -> float:
    losses, chances = laplace_losses(multiplier)
    for _ in range(rounds - 1):
        more, their = laplace_losses(multiplier)
        losses, chances = np.add.outer(losses, more).ravel(), np.multiply.outer(chances, their).ravel()
    return math.fsum(chances * np.maximum(-np.expm1(epsilon - losses), 0.0))


@pytest.mark.parametrize("multiplier", [0.7, 3.0])
@pytest.mark.parametrize("rounds", [1, 2])
def test_real_laplace_noise_stays_below_the_bound_and_a_claim_of_five_percent_more_is_caught(
    multiplier: float, rounds: int
) -> None:
    epsilons = [share * rounds / multiplier for share in (0.0, 0.3, 0.8, 0.96, 0.99)]
    for epsilon in epsilons:
        assert realized(multiplier, rounds, epsilon) <= delta_at({Laplace(multiplier): rounds}, epsilon)
    claimed = {Laplace(1.05 * multiplier): rounds}
    assert any(realized(multiplier, rounds, epsilon) > delta_at(claimed, epsilon) for epsilon in epsilons)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(
    st.sampled_from([Laplace(3.0), Laplace(50.0, 0.001), Laplace(400.0), Gaussian(30.0), FixedSize(4.0, 325, 50)]),
    st.integers(1, 60), min_size=1,
))  # fmt: skip
def test_what_the_filter_accepts_is_within_what_is_spent(history: dict[Event, int]) -> None:
    if fits_adaptively(history, 1.0, 1e-4):
        assert spent(history, 1e-4).epsilon <= 1.0


def test_the_filter_accepts_pure_releases_up_to_the_sum_and_more_if_there_are_many() -> None:
    assert fits_adaptively({Laplace(4.0): 4}, 1.0, 1e-9)
    assert fits_adaptively({Laplace(2.0): 1, Laplace(8.0): 4}, 1.0, 1e-9)
    assert not fits_adaptively({Laplace(3.99): 4}, 1.0, 1e-9)
    assert not fits_adaptively({Laplace(4.0): 4, Gaussian(1e6): 1}, 1.0, 1e-9)
    assert fits_adaptively({Laplace(100.0): 400}, 1.0, 1e-5)


@pytest.mark.parametrize("first", [Laplace(2.0), Laplace(20.0)])
def test_whoever_picks_the_next_event_by_the_loss_so_far_does_not_beat_the_filter(first: Laplace) -> None:
    epsilon, delta = 1.0, 1e-3
    pure = Laplace(1.0001 / (epsilon - first.epsilon))
    grid = [Gaussian(0.5 * 1.02**step) for step in range(300)]
    other = next(event for event in grid if fits_adaptively({first: 1, event: 1}, epsilon, delta))
    assert fits_adaptively({first: 1, pure: 1}, epsilon, delta)
    reached = 0.0
    for loss, chance in zip(*all_signs([first.epsilon]), strict=True):
        left = epsilon - float(loss)
        reached += chance * max(brute_delta([pure.epsilon], left), gaussian_profile(other.noise_multiplier, left))
    assert 0.0 < reached <= delta
