"""Gaussian releases of all records in closed form, in decimal arithmetic of fifty digits with series of its own for the
normal law: for checking what the first accountant said of them."""

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from functools import lru_cache
from typing import Any

DIGITS = 50


@lru_cache(maxsize=1024)
def gaussian_group(epsilon: float, delta: float, factor: float) -> float:
    """The epsilon of distances `factor` times as long as those of a Gaussian release with (epsilon, delta)."""
    with _decimals():
        distance = _bisected(lambda mu: _gaussian_delta(mu, Decimal(epsilon)) - Decimal(delta), rising=True)
        return float(_epsilon_at(distance * Decimal(factor), Decimal(delta)))


def _decimals() -> Any:
    """Arithmetic of many digits, in which e^epsilon of a large group does not overflow."""
    return localcontext(prec=DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)


def gaussian_epsilon(multipliers: list[tuple[float, int]], delta: float) -> float:
    """The epsilon of Gaussian releases of all records, from the multiplier of each kind and how many there are."""
    with _decimals():
        square = sum((Decimal(n) / Decimal(z) ** 2 for z, n in multipliers), Decimal(0))
        return float(_epsilon_at(square.sqrt(), Decimal(delta)))


def _epsilon_at(distance: Decimal, delta: Decimal) -> Decimal:
    if _gaussian_delta(distance, Decimal(0)) <= delta:
        return Decimal(0)
    return _bisected(lambda epsilon: _gaussian_delta(distance, epsilon) - delta, rising=False)


def _bisected(function: Callable[[Decimal], Decimal], rising: bool) -> Decimal:
    """Where a monotone function of positive numbers is zero."""
    low, high = Decimal(0), Decimal(1)
    while (function(high) < 0) == rising:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (function(middle) < 0) == rising else (low, middle)
    return high


def _gaussian_delta(distance: Decimal, epsilon: Decimal) -> Decimal:
    """Balle & Wang 2018, theorem 8."""
    if not distance:
        return Decimal(0)
    return _above(epsilon / distance - distance / 2) - epsilon.exp() * _above(epsilon / distance + distance / 2)


def _above(point: Decimal) -> Decimal:
    """The chance that a standard normal number is above a point."""
    if point < 0:
        return 1 - _above(-point)
    density = (-point * point / 2).exp() / (2 * _pi()).sqrt()
    if point > 8:  # Laplace's continued fraction
        fraction = point
        for term in range(200, 0, -1):
            fraction = point + Decimal(term) / fraction
        return density / fraction
    term, total, place = point, point, 1
    while abs(term) > Decimal(10) ** (-DIGITS - 10):
        place += 2
        term *= point * point / place
        total += term
    return Decimal(1) / 2 - density * total


@lru_cache(maxsize=1)
def _pi() -> Decimal:
    """Machin's formula."""

    def arctan_of_inverse(number: int) -> Decimal:
        power, total, sign, place = Decimal(1) / number, Decimal(0), 1, 1
        while power > Decimal(10) ** (-DIGITS - 10):
            total += sign * power / place
            power, sign, place = power / (number * number), -sign, place + 2
        return total

    with localcontext() as context:
        context.prec = DIGITS + 10
        return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
