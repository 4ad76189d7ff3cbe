"""The conformance kit passes mechanisms that keep their statements, and no others."""

from typing import Any

import numpy as np
import pytest

from fedspd.audit.mechanism import worst_neighbor
from fedspd.errors import InputError
from fedspd.testing import Statement, assert_statement_holds, audit_mechanism

RECORDS = np.linspace(-1.0, 1.0, 11)
ROWS = np.random.default_rng(0).uniform(-1, 1, (20, 3))


def gaussian_mean(deviation: float) -> Any:
    """Of numbers in [-1, 1]: sensitivity 2/11."""
    return lambda records, rng: np.clip(records, -1, 1).mean() + deviation * rng.standard_normal()


def laplace_mean(scale: float) -> Any:
    return lambda records, rng: np.clip(records, -1, 1).mean() + rng.laplace(0, scale)


def test_a_gaussian_mean_keeps_its_mu_and_the_kit_comes_close() -> None:
    statement = Statement(mu=1.0, delta=1e-5, sensitivity=2 / 11)
    lower = assert_statement_holds(gaussian_mean(2 / 11), statement, RECORDS)
    assert lower.epsilon > 0.8 * statement.claim.epsilon


def test_a_mean_with_a_fifth_too_little_noise_is_refuted() -> None:
    with pytest.raises(AssertionError, match="declared is an epsilon of at most"):
        assert_statement_holds(gaussian_mean(0.8 * 2 / 11), Statement(mu=1.0, delta=1e-5), RECORDS)


def test_a_pure_statement_is_refuted_without_a_family() -> None:
    assert 0.8 < assert_statement_holds(laplace_mean(2 / 11), Statement(epsilon=1.0), RECORDS).epsilon <= 1
    with pytest.raises(AssertionError):
        assert_statement_holds(laplace_mean(0.7 * 2 / 11), Statement(epsilon=1.0), RECORDS)


def test_a_sensitivity_that_is_too_small_is_seen_under_the_same_draws() -> None:
    statement = Statement(mu=1.0, delta=1e-5, sensitivity=1 / 11)
    with pytest.raises(AssertionError, match="more than the declared sensitivity"):
        assert_statement_holds(gaussian_mean(2 / 11), statement, RECORDS)


def test_noise_that_depends_on_the_records_is_seen_in_its_size() -> None:
    def loud(records: Any, rng: np.random.Generator) -> Any:
        return (1 + np.max(np.abs(records))) * rng.standard_normal()

    neighbor = 0 * RECORDS
    with pytest.raises(AssertionError):
        assert_statement_holds(loud, Statement(epsilon=0.5, delta=1e-5), RECORDS, neighbor)


def test_a_mechanism_without_noise_is_refuted() -> None:
    with pytest.raises(AssertionError, match="declared is an epsilon of at most"):
        assert_statement_holds(lambda records, rng: float(records[0] > 0), Statement(epsilon=1.0), -RECORDS, RECORDS)


def test_noise_that_is_used_twice_is_seen_in_a_difference() -> None:
    def twice(records: Any, rng: np.random.Generator) -> Any:
        noise = 10 * rng.standard_normal()
        return np.array([records.mean() + noise, noise])

    assert audit_mechanism(twice, Statement(epsilon=1.0, delta=1e-5), RECORDS).epsilon > 5


@pytest.mark.parametrize("neighbors", ["replace-one", "add-or-remove", "zero-out"])
def test_neighbors_differ_in_one_record(neighbors: str) -> None:
    first, second = worst_neighbor(ROWS, neighbors)
    assert len(first) - len(second) == (neighbors == "add-or-remove")
    if neighbors != "add-or-remove":
        assert np.any(first != second, axis=1).sum() == 1


@pytest.mark.parametrize(
    "wrong", [{}, {"epsilon": 1.0, "mu": 1.0}, {"mu": 1.0}, {"epsilon": -1.0}, {"epsilon": 1.0, "delta": 1.0}]
)
def test_what_is_no_statement_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Statement(**wrong)  # pyright: ignore[reportArgumentType]


def test_records_that_are_no_numbers_need_a_neighbor() -> None:
    with pytest.raises(InputError, match="give neighbor="):
        audit_mechanism(lambda records, rng: len(records), Statement(epsilon=1.0), ["a", "b"])


def test_releases_of_unequal_length_are_refused() -> None:
    with pytest.raises(InputError, match="as many numbers"):
        audit_mechanism(lambda records, rng: np.zeros(rng.integers(1, 3)), Statement(epsilon=1.0), RECORDS)
    with pytest.raises(InputError, match="at least 1000"):
        audit_mechanism(lambda records, rng: 0.0, Statement(epsilon=1.0), RECORDS, runs=10)
