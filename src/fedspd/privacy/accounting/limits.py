"""What an event may hold."""

import math
from numbers import Integral, Real
from typing import Literal, get_args

from fedspd.errors import InputError

Relation = Literal["replace-one", "zero-out"]
LEAST_MULTIPLIER, MOST_MULTIPLIER = 1e-2, 1e12
"""Of noise that is accounted for: at the least one release already has an epsilon of 5,000, and float64 has too few
digits for the losses beyond it."""
MOST_COUNTED = 10**12
LEAST_RATE = 1e-100
LEAST_PURE_MULTIPLIER = 1e-6  # in many dimensions little noise is much


def require_multiplier(value: float, least: float = LEAST_MULTIPLIER) -> None:
    """Refuse noise that is none, or that no accountant here counts."""
    if not isinstance(value, Real) or not math.isfinite(value) or value <= 0:
        raise InputError(
            f"noise_multiplier must be a positive finite number (noise over sensitivity), got {value!r}; "
            "calibrate one from a budget."
        )
    if not least <= value <= MOST_MULTIPLIER:
        raise InputError(
            f"noise_multiplier must be from {least:g} to {MOST_MULTIPLIER:g}, got {value!r}; less noise "
            "protects nobody, more leaves nothing: calibrate one from a budget."
        )


def require_relation(value: str) -> None:
    """Refuse neighbors that nobody knows."""
    if value not in get_args(Relation):
        raise InputError(
            f"relation must be one of {get_args(Relation)}, got {value!r}; name the neighbors "
            "the sensitivity was derived for."
        )


def require_count(name: str, value: int | None, least: int = 1) -> None:
    """Refuse what is no count."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}; correct it.")
    if value > MOST_COUNTED:
        got = f"{value:.3g}" if value < 10**300 else "a longer number"
        raise InputError(f"{name} must be at most {MOST_COUNTED:g}, got {got}; correct it.")


def require_rate(value: float) -> None:
    """Refuse what is no chance."""
    if not isinstance(value, Real) or not 0.0 < value <= 1.0:
        raise InputError(f"rate must lie in (0, 1], got {value!r}; give a record's chance to join.")
    if value < LEAST_RATE:
        raise InputError(f"rate must be at least {LEAST_RATE:g}, got {value!r}; no record would ever join.")


def require_contraction(value: float) -> None:
    """Refuse what is no part."""
    if not isinstance(value, Real) or not 0.0 <= value <= 1.0:
        raise InputError(
            f"contraction must lie in [0, 1], got {value!r}; it is gamma / (gamma + rho), and 0 is always safe."
        )


def require_own(own: float, together: float, local_steps: int = 1) -> None:
    """Refuse a member's own noise that is none, or more than that of all; and several local steps."""
    require_multiplier(own)
    if own > together:
        raise InputError(
            f"own_multiplier must be at most noise_multiplier = {together:g}, got {own:g}; one member's noise is part "
            "of all."
        )
    if local_steps != 1:
        raise InputError(f"a sum has one local step, got local_steps = {local_steps}; set it to 1.")
