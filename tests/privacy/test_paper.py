"""Golden numbers of the paper's formulas at its own constants, worked out by hand from the printed equations."""

from math import inf, sqrt

import numpy as np
import pytest

from fedspd.errors import InputError
from fedspd.privacy import WITH_REPLACEMENT, WITHOUT_REPLACEMENT, PaperFormulas, paper, plan_as_published

SIZES = np.repeat([326, 325], [61, 39])
RECORDS = 32561 / 100
PAPER = {"delta": 1e-4, "penalty": 20.0, "batch_size": 10, "dimension": 162}


def formulas(epsilon: float, local_steps: int = 5, participation: float = 0.2) -> PaperFormulas:
    return PaperFormulas(epsilon=epsilon, local_steps=local_steps, participation=participation, **PAPER)


@pytest.mark.parametrize(
    ("epsilon", "round", "gamma", "sigma"),
    [
        (1.0, 1, 349.6723, 0.058749),
        (1.0, 100, 3496.723, 0.006176),
        (0.1, 1, 3496.5423, 0.061760),
        (0.1, 100, 34965.423, 0.006208),
    ],
)
def test_step_size_and_noise_are_the_papers_at_five_local_steps(
    epsilon: float, round: int, gamma: float, sigma: float
) -> None:
    assert formulas(epsilon).inverse_step(round) == pytest.approx(gamma, rel=2e-7)
    assert formulas(epsilon).noise_scale(round) == pytest.approx(sigma, abs=6e-7)


def test_one_local_step_uses_the_papers_case_without_the_factor_of_repeats() -> None:
    single = formulas(1.0, local_steps=1, participation=0.1)
    assert single.inverse_step(1) == pytest.approx(442.2827, rel=2e-7)
    assert single.noise_scale(1) == pytest.approx(0.037584, abs=6e-7)


def test_the_privacy_term_is_the_51840_that_the_experiments_print() -> None:
    without_noise = formulas(inf).constant
    assert (formulas(1.0).constant - without_noise) * 16 / np.log(1.25e4) == pytest.approx(51840)
    assert without_noise == pytest.approx(3 + 2 / 10)


def test_sampling_rates_and_total_losses_are_the_papers() -> None:
    wor = paper.sampling_rate(WITHOUT_REPLACEMENT, 50, RECORDS)
    wr = paper.sampling_rate(WITH_REPLACEMENT, 50, RECORDS)
    assert wor == pytest.approx(0.153558, abs=6e-7)
    assert wr == pytest.approx(0.142552, abs=6e-7)
    assert paper.epsilon_per_round(1.0, wor, 20) == pytest.approx(0.44069, abs=6e-6)
    for rate, everyone, partial in [(wor, 0.5074, 0.2269), (wr, 0.4680, 0.2093)]:
        assert paper.total_epsilon(0.1, rate, 100) == pytest.approx(everyone, abs=6e-5)
        assert paper.total_epsilon(0.1, rate, 20) == pytest.approx(partial, abs=6e-5)
    assert paper.full_batch_total_epsilon(0.1, 100) == pytest.approx(3.04)
    assert paper.full_batch_total_epsilon(0.1, 20) == pytest.approx(1.360, abs=6e-4)


def test_theorem_2s_right_hand_side_is_the_sum_of_its_three_printed_terms() -> None:
    bound = formulas(1.0).convergence_bound(rounds=100, clients=100, initial_gap=7.0, regularizer_bound=0.3)
    second = (20 * 6 / 0.2 + 5 / 0.2 / 20 + 4 * 0.3 / 0.2) * 100 / (2 * 100 * 5)
    third = 100 * 2 * sqrt(formulas(1.0).constant) / sqrt(100 * 5 * 0.2)
    assert bound == pytest.approx(7 / 100 + second + third)


def test_a_total_budget_is_spent_exactly_after_the_expected_participations() -> None:
    plan = plan_as_published(1.0, "total", 1e-4, WITHOUT_REPLACEMENT, 50, SIZES, 20)
    assert plan.stated(RECORDS, 20) == pytest.approx(1.0)
    assert plan.epsilon_per_round == pytest.approx(0.44069, abs=6e-6)
    assert plan.noise_multiplier == pytest.approx(formulas(plan.epsilon_per_round).noise_multiplier)


def test_a_plan_made_of_the_papers_formulas_never_calls_itself_proved() -> None:
    for epsilon in (0.1, 1.0, inf):
        plan = plan_as_published(epsilon, "round", 1e-4, WITHOUT_REPLACEMENT, 50, SIZES, 20)
        assert plan.guarantee == ("none" if epsilon == inf else "as published")


def test_a_full_pass_has_no_finite_total_and_cannot_be_budgeted_in_total() -> None:
    plan = plan_as_published(1.0, "round", 1e-4, WITHOUT_REPLACEMENT, 325, np.array([325, 325]), 20)
    assert plan.spent(np.array([0, 1]), np.array([1, 20])).tolist() == [inf, inf]
    with pytest.raises(InputError, match=r"sampling rate below 1, got 1 .*lower batch_size"):
        plan_as_published(1.0, "total", 1e-4, WITHOUT_REPLACEMENT, 325, np.array([325, 325]), 20)
