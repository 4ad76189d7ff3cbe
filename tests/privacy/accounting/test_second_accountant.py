"""Two accountants that share no formula agree about every kind of event."""

import math
from typing import Any

import pytest

from fedspd.privacy.accounting import FixedSize, Gaussian, Laplace, Minimizer, Poisson, SharedGaussian, spent
from fedspd.privacy.accounting.events import KINDS, SharedFixedSize, SharedPoisson
from fedspd.privacy.accounting.groups import at_one_client
from fedspd.privacy.fifty_digits import gaussian_group
from fedspd.privacy.second_accountant import EXACT_SLACK, SecondOpinion, second_epsilon

HISTORIES: dict[str, Any] = {
    "gaussian": {Gaussian(7.8649): 4, Gaussian(12.0): 1},
    "much noise": {Gaussian(5000.0): 3},
    "little noise": {Gaussian(0.3): 2},
    "shared": {SharedGaussian(3.0, 1.0): 7},
    "subsets": {FixedSize(5.03, 325, 50): 20, Gaussian(20.0): 1},
    "shared subsets": {SharedFixedSize(3.0, 325, 50, own_multiplier=1.0): 10},
    "subsets in steps": {FixedSize(2.0, 325, 50, 5, 0.6): 40},
    "whole shards in steps": {FixedSize(6.0, 326, 326, 5, 0.8): 10},
    "poisson": {Poisson(1.1, 0.05): 30, Gaussian(20.0, "zero-out"): 1},
    "shared poisson": {SharedPoisson(1.1, 0.05, own_multiplier=0.5): 30},
    "poisson in steps": {Poisson(1.5, 0.2, 2, 0.5, 326, 33, 70): 20},
    "pure": {Laplace(10.0): 20, Laplace(4.0, 0.1): 3},
    "pure in many dimensions": {Laplace(0.05, 0.0, "replace-one", 162, 1): 5},
    "minimizers": {Minimizer(0.5, 160.0, 0.05, 162, 2): 5, Gaussian(10.0): 1},
    "minimizers whose second noise counts": {Minimizer(0.5, 8.0, 0.05, 162, 2): 5},
    "pure in objectives": {Laplace(0.05, 0.05, "replace-one", 162, 2): 5, Gaussian(10.0): 1},
}


@pytest.mark.parametrize("name", HISTORIES)
def test_both_accountants_agree(name: str) -> None:
    first, second = spent(HISTORIES[name], 1e-5).epsilon, second_epsilon(HISTORIES[name], 1e-5)
    assert second.agrees(first), (first, second)


def test_every_kind_of_event_is_among_them() -> None:
    assert {type(event) for history in HISTORIES.values() for event in history} == {*KINDS.values()}


@pytest.mark.parametrize("name", ["gaussian", "subsets", "poisson", "pure in many dimensions"])
def test_five_percent_less_is_a_contradiction(name: str) -> None:
    first, second = spent(HISTORIES[name], 1e-5).epsilon, second_epsilon(HISTORIES[name], 1e-5)
    assert not second.agrees(0.95 * first)
    assert second.exceeds(0.95 * first)
    assert not second.agrees(1.05 * first)
    assert not second.exceeds(1.05 * first)


def test_gaussian_releases_agree_to_a_billionth() -> None:
    for delta in (1e-3, 1e-6, 1e-12):
        second = second_epsilon({Gaussian(4.0): 3}, delta)
        assert second.slack == EXACT_SLACK == 1e-9
        assert math.isclose(second.epsilon, spent({Gaussian(4.0): 3}, delta).epsilon, rel_tol=1e-10)


def test_groups_agree_to_a_billionth() -> None:
    bound = at_one_client(1.0, 1e-5, 5, gaussian=True)
    assert bound is not None
    assert math.isclose(gaussian_group(1.0, 1e-5, 5), bound.epsilon, rel_tol=1e-10)


def test_nothing_costs_nothing() -> None:
    assert second_epsilon({}, 1e-5) == SecondOpinion(0.0, EXACT_SLACK)
    assert second_epsilon({Gaussian(1e9): 1}, 1e-5).epsilon == 0.0
