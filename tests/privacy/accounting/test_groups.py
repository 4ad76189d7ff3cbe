"""What several records cost together: bounds that hold, and that Gaussian releases attain."""

import math

import pytest

from fedspd.privacy.accounting import FixedSize, Gaussian, Laplace, delta_at, spent
from fedspd.privacy.accounting.groups import all_gaussian, at_one_client, at_several_clients

DELTA = 1e-5


@pytest.mark.parametrize("size", [2, 5, 20])
def test_several_records_cost_what_one_does_with_a_part_of_the_noise(size: int) -> None:
    one = spent({Gaussian(9.0): 4}, DELTA).epsilon
    attained = spent({Gaussian(9.0 / size): 4}, DELTA).epsilon
    bound = at_one_client(one, DELTA, size, gaussian=True)
    assert bound is not None
    assert bound.delta == DELTA
    assert attained <= bound.epsilon * (1 + 1e-9)
    assert math.isclose(attained, bound.epsilon, rel_tol=1e-9)


@pytest.mark.parametrize("clients", [2, 5, 20])
def test_records_at_several_clients_cost_what_all_releases_do(clients: int) -> None:
    one = spent({Gaussian(9.0): 4}, DELTA).epsilon
    attained = spent({Gaussian(9.0): 4 * clients}, DELTA).epsilon
    bound = at_several_clients(one, DELTA, clients, gaussian=True)
    assert bound is not None
    assert attained <= bound.epsilon * (1 + 1e-9)
    assert math.isclose(attained, bound.epsilon, rel_tol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_bounds_for_every_mechanism_cover_gaussian_noise(size: int) -> None:
    one = spent({Gaussian(9.0): 4}, DELTA).epsilon
    at_one, at_several = (f(one, DELTA, size, gaussian=False) for f in (at_one_client, at_several_clients))
    assert at_one is not None
    assert at_several is not None
    assert delta_at({Gaussian(9.0 / size): 4}, at_one.epsilon) <= at_one.delta
    assert delta_at({Gaussian(9.0): 4 * size}, at_several.epsilon) <= at_several.delta


def test_randomized_response_attains_the_bound_of_every_mechanism_without_delta() -> None:
    bound = at_one_client(0.3, 1e-12, 3, gaussian=False)
    assert bound is not None
    assert math.isclose(bound.epsilon, 0.9)
    assert math.isclose(bound.delta, 1e-12 * (1 + math.exp(0.3) + math.exp(0.6)))


def test_nothing_is_claimed_where_delta_would_reach_one() -> None:
    assert at_one_client(1.0, DELTA, 20, gaussian=False) is None
    assert at_one_client(800.0, DELTA, 2, gaussian=False) is None
    assert at_several_clients(1.0, 0.4, 3, gaussian=False) is None


def test_only_releases_of_all_records_with_gaussian_noise_are_exact() -> None:
    assert all_gaussian({Gaussian(1.0): 1, FixedSize(1.0, 10, 10): 2})
    assert not all_gaussian({Gaussian(1.0): 1, FixedSize(1.0, 10, 5): 2})
    assert not all_gaussian({Laplace(1.0): 1})
