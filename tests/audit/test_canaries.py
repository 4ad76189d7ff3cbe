"""One run with many canaries proves what it may, by the published bound."""

from dataclasses import replace

import pytest

from fedspd.audit.canaries import chance_at, one_run_bound, play_canaries
from tests.audit.test_game import DELTA, EPSILON, whole_contest


@pytest.mark.parametrize(("canaries", "guesses", "right", "delta", "error", "epsilon"), [
    (1000, 1000, 600, 1e-5, 0.001, 0.19944159),
    (2000, 200, 174, 1e-5, 0.001, 0.98393383),
    (100_000, 1000, 900, 1e-5, 0.05, 1.92765559),
    (500, 50, 50, 0.0, 0.001, 1.90950556),
])  # fmt: skip
def test_the_bound_is_that_of_jax_privacy(
    canaries: int, guesses: int, right: int, delta: float, error: float, epsilon: float
) -> None:
    """`_epsilon_one_run` of jax_privacy 2.0.0, which implements the same theorem."""
    assert one_run_bound(canaries, guesses, right, delta, 1 - error) == pytest.approx(epsilon, abs=1e-5)


def test_guesses_that_are_right_half_of_the_time_prove_nothing() -> None:
    assert one_run_bound(1000, 100, 52, 1e-5) == 0.0
    assert chance_at(1000, 100, 0, 1.0, 1e-5) == 1.0


@pytest.mark.parametrize("name", ["FedSPD-DP", "DP-SGD", "DP-FedAvg"])
def test_one_run_of_a_proved_method_proves_less_than_it_claims_and_more_than_nothing(name: str) -> None:
    target, _ = whole_contest(name)
    guesses, right = play_canaries(target, 1000, seed=3)
    assert 0.5 < one_run_bound(1000, guesses, right, DELTA) <= EPSILON


def test_one_run_without_enough_noise_is_caught() -> None:
    target, _ = whole_contest("FedSPD-DP")
    guesses, right = play_canaries(replace(target, multiplier=target.multiplier / 4), 1000, seed=3)
    assert right == guesses
    assert one_run_bound(1000, guesses, right, DELTA) > 1.5, "all that a hundred right guesses can show"
