"""From a budget to a noise multiplier, and to the number of participations that still fit."""

import math
from collections.abc import Callable

from fedspd.errors import InputError
from fedspd.privacy.accounting.adaptive import fits_adaptively
from fedspd.privacy.accounting.events import Event, Laplace
from fedspd.privacy.accounting.history import (
    Accountant,
    History,
    counted,
    require_count,
    require_delta,
    require_epsilon,
)
from fedspd.privacy.accounting.minimizers import Minimizer
from fedspd.privacy.accounting.spending import upper_epsilon

# Multipliers have five significant digits: 90,000 of them in each factor of ten.
_DECADE = 90_000
_LEAST_EXPONENT, _GREATEST_EXPONENT = -2, 9
_MOST_PARTICIPATIONS = 100_000


def calibrate(
    make_event: Callable[[float], Event],
    participations: int,
    epsilon: float,
    delta: float,
    history: History = (),
    accountant: Accountant = "pld",
) -> float:
    """The least noise multiplier, to 5 significant digits, that keeps all participations within a budget.

    Guarantees:
        Rounded up, never to nearest: the total, `history` included, was found within (epsilon, delta) for
        the very number returned.
        What no noise can lower, the jacobian of noise in objectives, is refused if it alone exceeds the budget.

    Args:
        make_event: the event of one participation, from its noise multiplier.
        history: what was spent before.
    """
    before = counted(history)
    require_epsilon(epsilon)
    require_count(participations)
    if not callable(make_event):
        raise InputError(f"make_event must be an event's class or a function, got {make_event!r}; pass one of them.")

    def epsilon_with(multiplier: float) -> float:
        events = counted([*before.items(), (make_event(multiplier), participations)])
        return upper_epsilon(events, delta, accountant)

    already = upper_epsilon(before, delta, accountant)
    first, beyond = _DECADE * _LEAST_EXPONENT, _DECADE * _GREATEST_EXPONENT
    place = beyond
    if participations and already < epsilon:
        guess = _place(_rough_multiplier(epsilon_with, epsilon))
        place = _first_true(lambda place: epsilon_with(_multiplier(place)) <= epsilon, first, beyond, guess)
        if place == beyond:
            _refuse_jacobian(make_event(_multiplier(beyond - 1)), participations, epsilon, delta)
    if place == beyond:
        raise InputError(
            f"expected at least one participation and room for it in epsilon = {epsilon} at delta = {delta}, "
            f"got {participations} after a history that spent {already:.6g}; raise the budget."
        )
    return _multiplier(place)


def participations_that_fit(
    event: Event,
    history: History,
    epsilon: float,
    delta: float,
    accountant: Accountant = "pld",
    adaptive: bool = False,
) -> int:
    """The largest number of further participations that keeps a history within (epsilon, delta).

    It looks no further than 100,000.

    Args:
        adaptive: True if `event` was chosen after seeing releases of `history`; the answer is then that of
            a privacy filter (`fits_adaptively`), and `accountant` is not used.
    """
    before = counted(history)
    require_epsilon(epsilon)
    require_delta(delta)

    def exceeds(count: int) -> bool:
        events = counted([*before.items(), (event, count)])
        if adaptive:
            return not fits_adaptively(events, epsilon, delta)
        return upper_epsilon(events, delta, accountant) > epsilon

    return max(0, _first_true(exceeds, 0, _MOST_PARTICIPATIONS + 1, guess=1) - 1)


def _refuse_jacobian(event: Event, participations: int, epsilon: float, delta: float) -> None:
    """Blame the jacobian, if there is one, for a budget that no noise meets."""
    if isinstance(event, Laplace | Minimizer) and event.jacobian > 0.0:
        raise InputError(
            f"expected room beside the jacobian of {participations} releases in epsilon = {epsilon}, delta = {delta}, "
            f"got {event.jacobian:.6g} for each, whatever the noise; raise algorithm.penalty or the budget."
        )


def _rough_multiplier(epsilon_with: Callable[[float], float], epsilon: float) -> float:
    """About the multiplier for `epsilon`, by secants of log epsilon over log multiplier."""
    least, greatest = 10.0**_LEAST_EXPONENT, 0.1 * 10.0**_GREATEST_EXPONENT
    multiplier, previous, slope = 1.0, None, -1.0
    for _ in range(12):
        multiplier = min(max(multiplier, least), greatest)
        reached = epsilon_with(multiplier)
        if not 0.0 < reached < math.inf:
            multiplier *= 0.25 if reached == 0.0 else 4.0
            continue
        point = math.log(multiplier), math.log(reached / epsilon)
        if abs(point[1]) < 1e-6:
            break
        if previous is not None and previous[0] != point[0]:
            slope = (point[1] - previous[1]) / (point[0] - previous[0])
        step = -point[1] / min(slope, -0.2)
        previous = point
        multiplier *= math.exp(min(max(step, -3.0), 3.0))
    return min(max(multiplier, least), greatest)


def _place(multiplier: float) -> int:
    exponent = math.floor(math.log10(multiplier))
    return _DECADE * exponent + math.ceil(multiplier * 10.0 ** (4 - exponent)) - 10_000


def _multiplier(place: int) -> float:
    """The number with five significant digits at a place of their ascending row; 1.0000 is at place 0."""
    exponent, digits = divmod(place, _DECADE)
    return float(f"{10_000 + digits}e{exponent - 4}")


def _first_true(condition: Callable[[int], bool], low: int, beyond: int, guess: int) -> int:
    """The first place from `low` on at which a condition holds that stays true; `beyond` if there is none."""
    high, step = beyond, 1
    if condition(guess):
        high = guess
        while high - step >= low and condition(high - step):
            high, step = high - step, 2 * step
        low = max(low - 1, high - step)
    else:
        low = guess
        while low + step < beyond and not condition(low + step):
            low, step = low + step, 2 * step
        high = min(beyond, low + step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high
