"""The accountants beside dp-accounting, wherever both apply: its estimates from below and from above enclose ours.

Its pessimistic estimate connects the dots, as ours does, so a bound of ours that is tight is at most theirs up to the
accuracy of both grids. Its optimistic estimate rounds every loss down: nothing that is an upper bound is below it.
"""

import math
from functools import reduce
from typing import Any, Protocol

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as theirs
from dp_accounting.rdp import RdpAccountant
from scipy.special import log_ndtr, ndtr

from fedspd.privacy.accounting import Event, FixedSize, Gaussian, Laplace, Poisson, delta_at, spent
from fedspd.privacy.accounting.events import relative_distances

pytestmark = pytest.mark.slow

Losses = theirs.PrivacyLossDistribution
GRIDS = 1e-5  # what our grid and theirs may differ by, relative
RARE = [(0.7, 0.001, 1, 1e-4), (0.7, 0.01, 20, 1e-4), (1.0, 0.001, 300, 1e-8)]


class Make(Protocol):
    """A mechanism of theirs, discretized."""

    def __call__(self, *, pessimistic_estimate: bool, value_discretization_interval: float, **more: Any) -> Losses: ...


def from_below(make: Make, rounds: int, spacing: float) -> Losses:
    """Their optimistic composition; no tail is counted as an infinite loss, which would not be optimistic."""
    losses = make(pessimistic_estimate=False, value_discretization_interval=max(4e-4, spacing))  # slow if finer
    return losses.self_compose(rounds, tail_mass_truncation=0)


def from_above(make: Make, rounds: int, spacing: float) -> Losses:
    return make(pessimistic_estimate=True, value_discretization_interval=spacing).self_compose(rounds)


def spacing_for(epsilon: float, rounds: int) -> float:
    return min(1e-3, max(1e-4, epsilon / (1000.0 * math.sqrt(rounds))))


def subsampled(multiplier: float, rate: float, distance: float = 1.0, replaced: bool = False) -> Make:
    """A Gaussian release of a Poisson sample of theirs; a record that is added or removed is zero-out here."""
    relation = NeighboringRelation.REPLACE_ONE if replaced else NeighboringRelation.REPLACE_SPECIAL

    def make(*, pessimistic_estimate: bool, value_discretization_interval: float, **_: Any) -> Losses:
        return theirs.from_gaussian_mechanism(
            multiplier,
            distance,
            pessimistic_estimate,
            value_discretization_interval,
            sampling_prob=rate,
            use_connect_dots=pessimistic_estimate,
            neighboring_relation=relation,
        )

    return make


def told_the_step(event: Poisson) -> Make:
    """Several local steps, the adversary told which one the record fell into: a mixture of their distributions."""
    distances = relative_distances(event.local_steps, event.contraction)

    def make(**how: Any) -> Losses:
        steps = [subsampled(event.noise_multiplier, event.rate, distance)(**how) for distance in distances]
        weighted = enumerate(steps[1:], 2)
        return reduce(lambda mixed, step: step[1].compute_mixture(mixed, 1.0 / step[0]), weighted, steps[0])

    return make


def not_told_the_step(event: Poisson) -> Make:
    """The same, the adversary not told: their mixture of Gaussians along one line."""
    distances = relative_distances(event.local_steps, event.contraction)

    def make(*, pessimistic_estimate: bool, value_discretization_interval: float, **_: Any) -> Losses:
        return theirs.from_mixture_gaussian_mechanism(
            event.noise_multiplier,
            [0.0, *distances],
            [1.0 - event.rate, *[event.rate / len(distances)] * len(distances)],
            pessimistic_estimate,
            value_discretization_interval,
            use_connect_dots=pessimistic_estimate,
        )

    return make


def random_answers(epsilon: float, rounds: int, spacing: float) -> Losses:
    """Randomized response between two answers, composed by them, on a grid that both losses are on.

    Their own maker rounds one of the two up by a whole cell, since the logarithm it takes is off in its last bit.
    """
    cells = round(epsilon / spacing)
    masses = {cells: 1.0 / (1.0 + math.exp(-epsilon)), -cells: 1.0 / (1.0 + math.exp(epsilon))}
    return Losses.create_from_rounded_probability(masses, 0.0, epsilon / cells).self_compose(rounds)


def profile(event: FixedSize, epsilons: np.ndarray) -> np.ndarray:
    """Theorem A1 of docs/accounting.md at each epsilon, written down again with SciPy's normal tails."""
    rate, positive = event.drawn / event.records, np.abs(epsilons)
    inner = np.log1p(np.expm1(positive) / rate)
    deltas = np.zeros_like(positive)
    for distance in relative_distances(event.local_steps, event.contraction):
        z = event.noise_multiplier / distance
        second = np.exp(inner + log_ndtr(-0.5 / z - inner * z))
        deltas += (ndtr(0.5 / z - inner * z) - second) * rate / event.local_steps
    deltas = np.maximum(deltas, 0.0)
    return np.where(epsilons < 0.0, -np.expm1(epsilons) + np.exp(epsilons) * deltas, deltas)


def composed_by_them(event: FixedSize, rounds: int, spacing: float) -> Losses:
    """Theorem A1's profile, discretized and composed by dp-accounting, which has no such event of its own."""
    reach = math.ceil((0.5 / event.noise_multiplier + 8.0) / event.noise_multiplier / spacing)
    deltas = profile(event, np.arange(-reach, reach + 1) * spacing)
    masses = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(spacing, -reach, reach, deltas)
    return Losses(masses).self_compose(rounds)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize(("multiplier", "rounds"), [(1.0, 1), (2.0, 7), (5.0, 20), (30.0, 300), (200.0, 1)])
def test_gaussian_releases(multiplier: float, rounds: int, delta: float) -> None:
    ours = spent({Gaussian(multiplier): rounds}, delta).epsilon
    make, spacing = subsampled(multiplier / math.sqrt(rounds), 1.0), spacing_for(ours, 1)
    low = from_below(make, 1, spacing).get_epsilon_for_delta(delta)
    assert low <= ours <= from_above(make, 1, spacing).get_epsilon_for_delta(delta) * (1.0 + GRIDS)
    assert ours <= low + 2.0 * spacing


@pytest.mark.parametrize(
    ("multiplier", "rate", "rounds", "delta"),
    [
        (1.0, 0.02, 100, 1e-4),
        (1.0, 0.15, 20, 1e-8),
        (1.0, 0.6, 1, 1e-4),
        (2.53, 0.02, 300, 1e-8),
        (2.53, 0.15, 20, 1e-4),
        (2.53, 0.6, 300, 1e-6),
        (8.0, 0.02, 3000, 1e-5),
        (8.0, 0.15, 1, 1e-8),
        (8.0, 0.6, 20, 1e-10),
    ],
)
def test_poisson_rounds_of_one_step(multiplier: float, rate: float, rounds: int, delta: float) -> None:
    bound = spent({Poisson(multiplier, rate): rounds}, delta)
    make, spacing = subsampled(multiplier, rate), spacing_for(bound.epsilon, rounds)
    above = from_above(make, rounds, spacing)
    assert bound.epsilon <= above.get_epsilon_for_delta(delta) * (1.0 + GRIDS)
    assert from_below(make, rounds, spacing).get_epsilon_for_delta(delta) <= bound.epsilon
    assert bound.lower_bound is not None
    assert bound.lower_bound <= above.get_epsilon_for_delta(delta)
    assert delta_at({Poisson(multiplier, rate): rounds}, 0.5 * bound.epsilon) == pytest.approx(
        float(above.get_delta_for_epsilon(0.5 * bound.epsilon)), rel=1e-3
    )


@pytest.mark.parametrize(("multiplier", "rate", "rounds", "delta"), RARE)
def test_rare_draws_with_little_noise_cost_a_little_more_here(
    multiplier: float, rate: float, rounds: int, delta: float
) -> None:
    # Grid and rounding suit the Rényi epsilon, which is far above the true one here (docs/accounting.md, section 5).
    ours = spent({Poisson(multiplier, rate): rounds}, delta).epsilon
    above = from_above(subsampled(multiplier, rate), rounds, 5e-5).get_epsilon_for_delta(delta)
    assert from_below(subsampled(multiplier, rate), rounds, 1e-4).get_epsilon_for_delta(delta) <= ours
    assert ours <= above * 1.004


@pytest.mark.parametrize(
    ("rate", "contraction", "rounds", "delta"),
    [
        (0.15, 0.95, 20, 1e-6),
        (0.6, 0.5, 1, 1e-4),
        (0.15, 0.0, 20, 1e-8),
    ],
)
def test_poisson_rounds_of_several_steps(rate: float, contraction: float, rounds: int, delta: float) -> None:
    event = Poisson(2.0, rate, 3, contraction, records=325, batch_size=10, max_batch=325)
    ours = spent({event: rounds}, delta).epsilon
    spacing = spacing_for(ours, rounds)
    told = from_above(told_the_step(event), rounds, spacing).get_epsilon_for_delta(delta)
    assert ours <= told * (1.0 + GRIDS)
    for make in (told_the_step(event), not_told_the_step(event)):
        assert from_below(make, rounds, spacing).get_epsilon_for_delta(delta) <= ours


@pytest.mark.parametrize(("rounds", "delta"), [(1, 1e-4), (20, 1e-4), (100, 1e-8)])
@pytest.mark.parametrize(
    "event",
    [
        FixedSize(5.03, 325, 50),
        FixedSize(2.04, 325, 50),
        FixedSize(1.0, 100, 2),
        FixedSize(3.0, 325, 50, 5, 0.95),
        FixedSize(3.0, 10, 10, 2, 1.0),
    ],
)
def test_subsets_of_fixed_size(event: FixedSize, rounds: int, delta: float) -> None:
    ours = spent({event: rounds}, delta).epsilon
    spacing = spacing_for(ours, rounds)
    composed = composed_by_them(event, rounds, spacing).get_epsilon_for_delta(delta)
    assert ours == pytest.approx(composed, rel=2.0 * GRIDS)
    rate = event.drawn / event.records
    if event.local_steps == 1:
        # Who holds one record against all others, or two against nobody, realizes these within a subset of fixed size.
        alone = from_below(subsampled(event.noise_multiplier, rate), rounds, spacing)
        opposed = from_below(subsampled(2.0 * event.noise_multiplier, rate, replaced=True), rounds, spacing)
        assert max(losses.get_epsilon_for_delta(delta) for losses in (alone, opposed)) <= ours


@pytest.mark.parametrize("delta", [1e-4, 1e-8])
@pytest.mark.parametrize(
    ("event", "translated"),
    [
        (Gaussian(5.0), dp_accounting.GaussianDpEvent(5.0)),
        (Poisson(2.53, 0.15), dp_accounting.PoissonSampledDpEvent(0.15, dp_accounting.GaussianDpEvent(2.53))),
        (
            FixedSize(5.03, 325, 50),
            dp_accounting.SampledWithoutReplacementDpEvent(325, 50, dp_accounting.GaussianDpEvent(5.03)),
        ),
    ],
)
def test_renyi_accounts(event: Event, translated: dp_accounting.DpEvent, delta: float) -> None:
    relation = "REPLACE_SPECIAL" if event.relation == "zero-out" else "REPLACE_ONE"
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation[relation]).compose(translated, 20)
    by_them = accountant.get_epsilon(delta)
    assert spent({event: 20}, delta, "rdp").epsilon == pytest.approx(by_them, rel=1e-6)
    assert spent({event: 20}, delta).epsilon <= by_them


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize(("multiplier", "rounds"), [(0.5, 1), (1.0, 10), (10.0, 50), (20.0, 400)])
def test_pure_releases(multiplier: float, rounds: int, delta: float) -> None:
    event = Laplace(multiplier)
    ours = spent({event: rounds}, delta).epsilon
    answers = random_answers(event.epsilon, rounds, spacing_for(ours, rounds))
    assert ours == pytest.approx(answers.get_epsilon_for_delta(delta), rel=GRIDS)

    def laplace(*, pessimistic_estimate: bool, value_discretization_interval: float, **_: Any) -> Losses:
        return theirs.from_laplace_mechanism(
            multiplier, 1, pessimistic_estimate, value_discretization_interval, use_connect_dots=False
        )

    assert from_below(laplace, rounds, spacing_for(ours, rounds)).get_epsilon_for_delta(delta) <= ours


def test_releases_of_several_kinds_together() -> None:
    history = {Poisson(2.53, 0.15): 20, Gaussian(20.0, "zero-out"): 3, Laplace(10.0, relation="zero-out"): 5}
    ours, spacing = spent(history, 1e-5).epsilon, 1e-3
    assert ours < 3.0
    high = from_above(subsampled(2.53, 0.15), 20, spacing).compose(from_above(subsampled(20.0, 1.0), 3, spacing))
    answers = random_answers(0.1, 5, spacing)
    assert ours <= high.compose(answers).get_epsilon_for_delta(1e-5) * (1.0 + GRIDS)
    low = from_below(subsampled(2.53, 0.15), 20, spacing).compose(from_below(subsampled(20.0, 1.0), 3, spacing))
    assert low.get_epsilon_for_delta(1e-5) < ours
