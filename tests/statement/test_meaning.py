"""What a statement says of beliefs, held against a mechanism whose likelihood ratios are known."""

import math

import pytest
from scipy.stats import norm

from fedspd.privacy.accounting.closed_form.gaussian import gaussian_epsilon
from fedspd.statement.meaning import OUTSIDE, belief_factor

DELTA = 1e-5


def chance_beyond(factor: float, multiplier: float) -> float:
    """That the likelihood ratio of N(1, z²) against N(0, z²) is beyond a factor, where the first is the truth."""
    return float(norm.sf(multiplier * math.log(factor) - 1 / (2 * multiplier)))


@pytest.mark.parametrize("multiplier", [0.5, 1.0, 3.7, 30.0])
def test_beliefs_pass_what_is_said_of_them_with_no_larger_chance_than_is_said(multiplier: float) -> None:
    epsilon = gaussian_epsilon(multiplier, DELTA)
    assert chance_beyond(belief_factor(epsilon), multiplier) <= OUTSIDE * DELTA


@pytest.mark.parametrize("multiplier", [0.5, 1.0, 3.7, 30.0])
def test_odds_change_by_more_than_a_factor_of_e_to_the_epsilon_with_a_larger_chance_than_delta(
    multiplier: float,
) -> None:
    epsilon = gaussian_epsilon(multiplier, DELTA)
    assert chance_beyond(math.exp(epsilon), multiplier) > 1.05 * DELTA
