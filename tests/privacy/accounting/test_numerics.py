"""What docs/proofs/numerics.md proves of the arithmetic, and the functions that it trusts, against mpmath."""

import math

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from fedspd.privacy.accounting import FixedSize, Poisson
from fedspd.privacy.accounting.closed_form import spherical
from fedspd.privacy.accounting.distributions.compose import (
    compose,
    relative_rounding,
    tilt_for_delta,
    transform_noise,
)
from fedspd.privacy.accounting.distributions.discretize import LossMasses
from fedspd.privacy.accounting.distributions.profiles import Dominating, dominating, loss_tails

Floats = NDArray[np.float64]
UNIT = 2.0**-53


def exact_transform(values: Floats) -> NDArray[np.clongdouble]:
    """The first half of the spectrum, with 64 bits where the machine has them."""
    size = len(values)
    angles = 8.0 * np.arctan(np.longdouble(1.0)) / size * np.arange(size)
    cosines, sines, places = np.cos(angles), np.sin(angles), np.arange(size)
    wide = values.astype(np.longdouble)
    return np.array(
        [np.sum(wide * (cosines[k * places % size] - 1j * sines[k * places % size])) for k in range(size // 2 + 1)]
    )


@pytest.mark.parametrize("size", [256, 320, 384, 576, 1024, 1152, 1280, 1536])
@pytest.mark.parametrize("shape", ["uniform", "one", "bell"])
def test_a_transform_is_off_by_less_than_a_tenth_of_what_is_counted(size: int, shape: str) -> None:
    rng, places = np.random.default_rng(size), np.arange(size)
    values = {
        "uniform": rng.random(size),
        "one": (places == rng.integers(size)).astype(float),
        "bell": np.exp(-(((places - size / 3) / (size / 50)) ** 2)),
    }[shape]
    off = float(np.sum(np.abs(np.fft.rfft(values) - exact_transform(values)) ** 2)) ** 0.5 * math.sqrt(2.0)
    counted = 8.0 * UNIT * math.log2(size) * math.sqrt(size) * float(np.linalg.norm(values))
    assert off <= 0.1 * counted


@pytest.mark.parametrize("power", [2, 7, 99, 100, 1000, 10**5])
def test_a_complex_power_of_a_number_in_the_disk_is_off_by_at_most_8_units_a_factor(power: int) -> None:
    rng = np.random.default_rng(power)
    numbers = np.exp(1j * rng.uniform(-math.pi, math.pi, 200)) * rng.uniform(0.5, 1.0, 200) ** (1.0 / power)
    with mpmath.workdps(40):
        off = [abs(mpmath.mpc(a) ** power - mpmath.mpc(b)) for a, b in zip(numbers, numbers**power, strict=True)]
        assert max(off) <= 8.0 * power * UNIT


def two_losses(epsilon: float) -> LossMasses:
    mass = 1.0 / (1.0 + math.exp(-epsilon))
    return LossMasses(epsilon, -1, np.array([1.0 - mass, 0.0, mass]), 0.0)


def binomial_delta(masses: LossMasses, count: int, epsilon: float) -> mpmath.mpf:
    """Of that many compositions, with 40 digits."""
    step, likely = mpmath.mpf(masses.spacing), mpmath.mpf(float(masses.masses[-1]))
    first = max(0, int((epsilon / step + count) / 2))
    mass = mpmath.binomial(count, first) * likely**first * (1 - likely) ** (count - first)
    total = mpmath.mpf(0)
    for positive in range(first, count + 1):
        loss = (2 * positive - count) * step
        if loss > epsilon:
            total += mass * (1 - mpmath.exp(epsilon - loss))
        if positive > first + 2 and mass < total * mpmath.mpf(10) ** -20:
            break
        mass *= likely / (1 - likely) * (count - positive) / (positive + 1)
    return total


@pytest.mark.parametrize(("count", "epsilon"), [(100, 0.15), (1000, 0.05), (10**4, 0.013), (10**5, 0.004)])
def test_a_composition_is_above_the_exact_one_by_no_more_than_the_bounds_that_are_added(
    count: int, epsilon: float
) -> None:
    parts = [(two_losses(epsilon), count)]
    tilt = tilt_for_delta(parts, 1e-6)
    curve = compose(parts, tilt.value, lowest=0.0)
    with mpmath.workdps(40):
        for place in np.searchsorted(curve.epsilons, [0.5 * tilt.epsilon, 0.9 * tilt.epsilon, tilt.epsilon]):
            exact = binomial_delta(parts[0][0], count, float(curve.epsilons[place]))
            assert exact <= curve.deltas[place] <= exact * (1.0 + 1e-4)


def test_so_many_compositions_that_rounding_could_be_anything_prove_nothing() -> None:
    parts = [(two_losses(1e-6), 10**11)]
    assert transform_noise(parts, 1 << 20) > 0.01
    assert (compose(parts, 1.0, lowest=0.0).deltas == 1.0).all()


def test_relative_rounding_grows_with_rounds_and_windows_and_is_below_what_is_always_added_for_few() -> None:
    masses = two_losses(0.05)
    assert relative_rounding([(masses, 1000)], 3.0, 1024) < 1e-11
    assert relative_rounding([(masses, 10**8)], 3.0, 1024) > 1e-8
    assert relative_rounding([(masses, 10)], 3.0, 1 << 23) > 1e-9


# A function, its arguments, the same by mpmath, and the error that is trusted in.
def _normal(x: float) -> mpmath.mpf:
    return mpmath.erfc(-mpmath.mpf(x) / mpmath.sqrt(2)) / 2


def _scaled(x: float) -> mpmath.mpf:
    return mpmath.exp(mpmath.mpf(x) ** 2) * mpmath.erfc(x)


def _beta(a: float, b: float, x: float) -> mpmath.mpf:
    return mpmath.betainc(a, b, 0, mpmath.mpf(x), regularized=True)


POINTS = np.random.default_rng(5)
TRUSTED = {
    "ndtr": (special.ndtr, _normal, [(float(x),) for x in POINTS.uniform(-36.0, 8.0, 80)], 1e-12),
    "erfcx": (special.erfcx, _scaled, [(float(x),) for x in POINTS.uniform(0.0, 60.0, 80)], 1e-14),
    "exp": (np.exp, mpmath.exp, [(float(x),) for x in POINTS.uniform(-700.0, 700.0, 80)], 2 * UNIT),
    "expm1": (np.expm1, mpmath.expm1, [(float(x),) for x in POINTS.uniform(-40.0, 1.0, 80)], 4 * UNIT),
    "log1p": (np.log1p, mpmath.log1p, [(float(x),) for x in POINTS.uniform(-0.99, 100.0, 80)], 4 * UNIT),
    "gammaln": (special.gammaln, mpmath.loggamma, [(float(x),) for x in POINTS.integers(3, 10**6, 80)], 2.0**-51),
    "betainc, k = 2": (special.betainc, _beta, [(80.0, 1.0, float(x)) for x in POINTS.uniform(0.5, 1.0, 40)], 1e-12),
    "betainc, k = 1": (special.betainc, _beta, [(80.5, 0.5, float(x)) for x in POINTS.uniform(0.5, 1.0, 40)], 1e-12),
}


@pytest.mark.parametrize("name", sorted(TRUSTED))
def test_a_trusted_function_is_right_to_the_digits_that_are_trusted_in(name: str) -> None:
    function, exact, places, trusted = TRUSTED[name]
    with mpmath.workdps(50):
        for place in places:
            true = exact(*place)
            assert abs(mpmath.mpf(float(function(*place))) - true) <= trusted * abs(true), place


@pytest.mark.parametrize("dimension", [3, 10, 162, 2000, 10**5])
def test_cells_of_a_norm_hold_the_mass_of_the_gamma_law_and_put_no_less_of_it_at_their_lower_ends(
    dimension: int,
) -> None:
    ends, mass, at_lower = spherical._norm_cells(dimension)
    with mpmath.workdps(40):
        for cell in range(1, len(ends) - 1, max(1, len(ends) // 12)):
            low, high = mpmath.mpf(float(ends[cell])), mpmath.mpf(float(ends[cell + 1]))

            def density(norm: mpmath.mpf) -> mpmath.mpf:
                return mpmath.exp((dimension - 1) * mpmath.log(norm) - norm - mpmath.loggamma(dimension))

            def lower_share(norm: mpmath.mpf, low: mpmath.mpf = low, high: mpmath.mpf = high) -> mpmath.mpf:
                return density(norm) * (high - norm) / (high - low)

            assert abs(mpmath.quad(density, [low, high]) - mass[cell]) <= 1e-10 * mass[cell]
            assert mpmath.quad(lower_share, [low, high]) <= at_lower[cell] * (1 + 1e-13)


@pytest.mark.parametrize("dimension", [3, 4, 10, 162, 1000, 10**5])
@pytest.mark.parametrize("multiplier", [0.1, 1.0, 30.0])
def test_tabulated_tails_are_nowhere_below_the_tail_and_hardly_above(dimension: int, multiplier: float) -> None:
    """With two directions the chance of an angle is a power of its sine."""
    norms, _ = spherical._norms(dimension, multiplier)
    ends = spherical._cells(norms, multiplier, dimension, 2)
    losses = np.random.default_rng(dimension).uniform(ends[1], ends[min(800, len(ends) - 1)], 2000)
    tails = spherical._tails(losses, norms, multiplier, dimension, 2)
    share = np.minimum(losses * multiplier, 1.0)
    cosines = np.clip(share - (1.0 - share) * (1.0 + share) / (2.0 * multiplier * norms[1:, None]), 0.0, 1.0)
    exact = np.exp(0.5 * (dimension - 2) * np.log1p(-cosines * cosines))
    assert (tails >= exact * (1.0 - 1e-11)).all()
    typical = (exact > 1e-12) & (exact < 1.0 - 1e-9)
    if dimension > 3:
        assert (tails[typical] <= exact[typical] * (1.0 + 1e-3)).all()


def missed(marked: NDArray[np.bool_], ends: Floats, norms: Floats, shape: tuple[int, int, float]) -> int:
    """Norms whose tail turns in a cell that is not marked."""
    count = 0
    for row, norm in enumerate(norms[1:].tolist()):
        if norm * shape[2] < 1e-4:  # all of its mass is where the loss is greatest
            continue
        if (turn := turning_loss(norm, *shape)) is not None:
            cell = min(int(np.searchsorted(ends, turn, side="right")) - 1, len(ends) - 2)
            count += not marked[row, cell]
    return count


@pytest.mark.parametrize("dimension", [4, 5, 10, 162])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("multiplier", [1e-4, 0.01, 1.0, 40.0])
def test_the_cell_in_which_a_tail_turns_from_concave_to_convex_is_always_among_those_that_take_its_largest_value(
    dimension: int, directions: int, multiplier: float
) -> None:
    norms, _ = spherical._norms(dimension, multiplier)
    ends = spherical._cells(norms, multiplier, dimension, directions)
    tails = spherical._tails(ends, norms, multiplier, dimension, directions)
    marked = spherical._bends(ends, tails, spherical._table_margin(dimension, directions))
    assert missed(marked, ends, norms, (dimension, directions, multiplier)) == 0


def test_planting_a_search_that_looks_for_changes_of_sign_alone_misses_some() -> None:
    norms, _ = spherical._norms(5, 0.01)
    ends = spherical._cells(norms, 0.01, 5, 2)
    slopes = np.diff(spherical._tails(ends, norms, 0.01, 5, 2), axis=1) / np.expm1(-np.diff(ends))
    signs = np.sign(np.exp(np.diff(ends)[:-1]) * slopes[:, 1:] - slopes[:, :-1])
    flips, marked = np.diff(signs, axis=1) != 0, np.zeros(slopes.shape, bool)
    for place in range(3):
        marked[:, place : place + flips.shape[1]] |= flips
    assert missed(marked, ends, norms, (5, 2, 0.01)) > 0


def bend(loss: float, norm: float, dimension: int, directions: int, multiplier: float) -> float:
    """Where this is positive the tail is concave in exp(-loss), where it is negative convex: lemma 21."""
    cosine = multiplier * loss - (1.0 - (multiplier * loss) ** 2) / (2.0 * norm * multiplier)
    speed = multiplier * (1.0 + loss / norm)
    rise = (directions - 1) / cosine - (dimension - directions - 2) * cosine / (1.0 - cosine * cosine)
    return rise * speed + 1.0 + 1.0 / (norm + loss)


def turning_loss(norm: float, dimension: int, directions: int, multiplier: float) -> float | None:
    """By bisection on the sign of the bend, which the lemma says falls; None where it does not change its sign."""
    # the cosine is positive from here on
    least = norm * (math.sqrt(1.0 + 1.0 / (norm * multiplier) ** 2) - 1.0)
    low, high = least + 1e-9 * (1.0 / multiplier - least), (1.0 - 1e-12) / multiplier
    values = [bend(x, norm, dimension, directions, multiplier) for x in np.linspace(low, high, 200).tolist()]
    assert (np.diff(values) <= 1e-9 * np.abs(values[1:])).all(), "the bend does not fall"
    if not values[0] > 0.0 > values[-1]:
        return None
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if bend(middle, norm, dimension, directions, multiplier) > 0.0 else (low, middle)
    return low


@pytest.mark.parametrize(
    "event", [FixedSize(5.03, 325, 50), FixedSize(0.8, 10_000, 1), Poisson(1.2, 1e-4), FixedSize(40.0, 100, 30)]
)
def test_tails_of_a_loss_are_right_to_the_twelfth_digit(event: FixedSize | Poisson) -> None:
    pair = dominating(event, "removal")
    assert isinstance(pair, Dominating)
    rate, multiplier = mpmath.mpf(pair.rate), mpmath.mpf(pair.multipliers[0])
    losses = np.concatenate([np.geomspace(1e-6, 3.0 / event.noise_multiplier, 30), [0.5 * float(mpmath.log(1 + rate))]])
    tails = loss_tails(pair, losses)
    with mpmath.workdps(50):
        for place, loss in enumerate(losses.tolist()):
            inner = mpmath.log((mpmath.exp(mpmath.mpf(loss)) - 1 + rate) / rate)
            lower, upper = inner * multiplier - 1 / (2 * multiplier), inner * multiplier + 1 / (2 * multiplier)
            above = (1 - rate) * _normal(-upper) + rate * _normal(-lower)
            scaled = mpmath.exp(mpmath.mpf(loss)) * _normal(-upper)
            assert abs(tails.above[place] - above) <= 1e-12 * above
            assert abs(tails.scaled_second_above[place] - scaled) <= 1e-12 * scaled
