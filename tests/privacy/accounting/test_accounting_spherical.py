"""Pure noise in many dimensions: how far a record lengthens it, and what one release leaks."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, gammaincinv, gammaln, ndtr

from fedspd.privacy.accounting import Laplace
from fedspd.privacy.accounting.closed_form.spherical import lengthening
from fedspd.privacy.accounting.distributions.profiles import dominating, positive_losses

Floats = NDArray[np.float64]
Values = tuple[Floats, Floats]


def release(multiplier: float, dimension: int, directions: int, jacobian: float = 0.0) -> Laplace:
    return Laplace(multiplier, jacobian, dimension=dimension, directions=directions)


def quantiles(dimension: int, directions: int, cells: int = 500) -> tuple[Floats, Floats, Floats]:
    """Norms and cosines in the middle of cells that reach far into the tails, and their chances."""
    edges = np.linspace(-8.0, 8.0, cells + 1)
    middles, chances = 0.5 * (edges[:-1] + edges[1:]), np.diff(ndtr(edges))
    sines = betaincinv(0.5 * (dimension - directions), 0.5 * directions, ndtr(-middles))
    norms, cosines = np.meshgrid(gammaincinv(dimension, ndtr(middles)), np.sqrt(1.0 - sines))
    return norms.ravel(), cosines.ravel(), np.outer(chances, chances).ravel()


def longer(norms: Floats, cosines: Floats, multiplier: float) -> Floats:
    return np.sqrt(norms**2 + 2.0 * norms * cosines / multiplier + multiplier**-2.0) - norms


def real_losses(multiplier: float, dimension: int) -> Values:
    """Losses of noise on a query that moves by the whole sensitivity, whose cosine has a sign, and their chances."""
    norms, cosines, chances = quantiles(dimension, 1)
    losses = [longer(norms, sign * cosines, multiplier) for sign in (1.0, -1.0)]
    return np.concatenate(losses), np.concatenate([0.5 * chances, 0.5 * chances])


def true_profile(multiplier: float, dimension: int, directions: int, loss: float) -> float:
    """The profile of U as an integral of its tail over the norm and over larger losses."""
    nodes, weights = np.polynomial.legendre.leggauss(300)
    least, greatest = gammaincinv(dimension, ndtr(np.array([-8.0, 8.0])))
    norms = least + (greatest - least) * 0.5 * (nodes + 1.0)
    density = np.exp((dimension - 1.0) * np.log(norms) - norms - gammaln(dimension))
    share = multiplier * (loss + (1.0 / multiplier - loss) * 0.5 * (nodes + 1.0) ** 3 / 4.0)
    cosines = np.maximum(share - (1.0 - share**2) / (2.0 * multiplier * norms[:, None]), 0.0)
    tails = betainc(0.5 * (dimension - directions), 0.5 * directions, 1.0 - cosines**2)
    over_norms = 0.5 * (greatest - least) * (weights * density) @ tails
    steps = (1.0 / multiplier - loss) * 0.375 * (nodes + 1.0) ** 2
    return float(np.dot(over_norms * np.exp(loss - share / multiplier), weights * steps))


def profile(values: Values, losses: Floats) -> Floats:
    return np.array([float(np.dot(values[1], np.maximum(-np.expm1(loss - values[0]), 0.0))) for loss in losses])


def noise(rng: np.random.Generator, samples: int, dimension: int) -> Floats:
    """Vectors of density proportional to exp(-|b|): a random direction, a norm that is Gamma distributed."""
    directions = rng.standard_normal((samples, dimension))
    norms = rng.gamma(dimension, size=samples)
    return directions * (norms / np.linalg.norm(directions, axis=1))[:, None]


def attacked(multiplier: float, dimension: int, directions: int, samples: int = 400_000) -> Floats:
    """By how much noise gets longer if it is moved, within the first directions, as suits it worst."""
    rng, parts = np.random.default_rng(7), []
    for _ in range(samples // 20_000):
        vectors = noise(rng, 20_000, dimension)
        shifts = np.zeros_like(vectors)
        within = vectors[:, :directions]
        shifts[:, :directions] = within / np.linalg.norm(within, axis=1)[:, None] / multiplier
        parts.append(np.linalg.norm(vectors + shifts, axis=1) - np.linalg.norm(vectors, axis=1))
    return np.concatenate(parts)


def deviations_below(values: Values, sampled: Floats) -> float:
    """By how many standard errors the profile falls below that of samples, at the worst of several alphas."""
    found = []
    for loss in np.quantile(sampled, [0.02, 0.3, 0.6, 0.9, 0.99]):
        gains = np.maximum(-np.expm1(loss - sampled), 0.0)
        bound = float(profile(values, np.array([loss]))[0])
        found.append((float(gains.mean()) - bound) / (float(gains.std()) / math.sqrt(len(sampled))))
    return max(found)


CASES = [(3, 1, 1.0), (3, 2, 4.0), (10, 2, 0.5), (30, 2, 1.0), (30, 5, 0.7), (30, 1, 0.2)]


@pytest.mark.parametrize(("dimension", "directions", "multiplier"), CASES)
def test_who_moves_the_noise_as_suits_it_worst_attains_the_law_and_five_percent_less_is_caught(
    dimension: int, directions: int, multiplier: float
) -> None:
    sampled = attacked(multiplier, dimension, directions)
    assert np.all((sampled > 0.0) & (sampled <= 1.0 / multiplier * (1 + 1e-9)))
    values, masses = lengthening(multiplier, dimension, directions)
    for loss in np.quantile(sampled, [0.05, 0.2, 0.5, 0.8, 0.95]):
        tail = float(np.mean(sampled > loss))
        cell = np.searchsorted(values, loss)
        above = float(masses[cell + 2 :].sum()), float(masses[max(cell - 2, 0) :].sum())
        assert above[0] - 0.004 <= tail <= above[1] + 0.004
    assert deviations_below((values, masses), sampled) < 4.0
    assert deviations_below(lengthening(1.05 * multiplier, dimension, directions), sampled) > 8.0


@pytest.mark.parametrize(("dimension", "directions", "multiplier"), CASES)
def test_a_law_with_too_few_directions_or_without_the_square_of_the_shift_is_caught(
    dimension: int, directions: int, multiplier: float
) -> None:
    sampled = attacked(multiplier, dimension, directions)
    if directions > 1:
        assert deviations_below(lengthening(multiplier, dimension, directions - 1), sampled) > 8.0
    norms, cosines, chances = quantiles(dimension, directions)
    careless = np.sqrt(norms**2 + 2.0 * norms * cosines / multiplier) - norms
    assert deviations_below((careless, chances), sampled) > 8.0


@pytest.mark.parametrize(
    ("dimension", "directions", "multiplier"), [(10, 2, 1.0), (81, 1, 0.5), (162, 2, 2.0), (162, 2, 0.3), (60, 9, 5.0)]
)
def test_the_profile_of_the_law_is_at_least_that_of_the_lengthening_and_hardly_more(
    dimension: int, directions: int, multiplier: float
) -> None:
    law = lengthening(multiplier, dimension, directions)
    sampled = longer(*quantiles(dimension, directions, 100)[:2], multiplier)
    for loss in np.quantile(sampled, [0.2, 0.5, 0.7, 0.9]):
        true = true_profile(multiplier, dimension, directions, float(loss))
        assert true * (1 - 1e-8) <= profile(law, np.array([loss]))[0] <= true * (1 + 2e-3) + 1e-12


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 400), st.data(), st.floats(-2.0, 3.0))
def test_any_law_is_a_distribution_up_to_the_reciprocal_and_not_below_the_lengthening(
    dimension: int, data: st.DataObject, exponent: float
) -> None:
    directions, multiplier = data.draw(st.integers(1, min(4, dimension - 1))), 10.0**exponent
    values, masses = lengthening(multiplier, dimension, directions)
    assert np.all(masses > 0.0)
    assert np.all(np.diff(values) > 0.0)
    assert math.fsum(masses) == pytest.approx(1.0, abs=1e-12)
    assert 0.0 <= values[0] < values[-1] <= 1.0 / multiplier
    norms, cosines, chances = quantiles(dimension, directions)
    exact = longer(norms, cosines, multiplier), chances
    losses = np.quantile(exact[0], [0.0, 0.3, 0.5, 0.6])
    true, found = profile(exact, losses), profile((values, masses), losses)
    assert np.all(found >= true * (1 - 1e-3) - 1e-9)
    # With less noise the norms are only rounded down, and the law is farther from the true one.
    if dimension * multiplier**2 > 3.0:
        assert np.all(found <= true * 1.01 + 1e-3 * true[0])


@pytest.mark.parametrize(("dimension", "multiplier"), [(3, 0.5), (3, 3.0), (81, 0.2), (81, 2.0), (1000, 0.1)])
def test_real_noise_on_a_query_stays_below_the_bound_and_five_percent_less_noise_is_caught(
    dimension: int, multiplier: float
) -> None:
    losses, chances = real_losses(multiplier, dimension)
    assert float(np.dot(chances, np.exp(-losses))) == pytest.approx(1.0, abs=1e-3)
    pair = positive_losses(dominating(release(multiplier, dimension, 1), "removal"))
    both = np.concatenate([pair[0], -pair[0]]), np.concatenate([pair[1], pair[1] * np.exp(-pair[0])])
    at = float(losses.max()) * np.array([-0.9, -0.3, -0.1, 0.0, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9])
    real = profile((losses, chances), at)
    assert np.all(real <= profile(both, at) * (1 + 1e-3))
    claimed = positive_losses(dominating(release(1.05 * multiplier, dimension, 1), "removal"))
    assert np.any(real[at > 0.0] > profile(claimed, at[at > 0.0]))
