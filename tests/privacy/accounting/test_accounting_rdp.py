"""Rényi accounting through dp-accounting: the convention of its multiplier, and its rounding noise."""

import pytest

from fedspd.errors import InputError
from fedspd.privacy.accounting import Event, FixedSize, Gaussian, Laplace, Poisson, calibrate, delta_at, spent


# An independent prototype: at z 2, n 10, delta 1e-4 an adversary realizes these, and an accountant that reads
# z relative to the norm of a record (half the replace-one sensitivity) would answer 5.00 and 2.89.
@pytest.mark.parametrize(("drawn", "realized", "wrong"), [(9, 5.985, 5.00), (5, 3.36, 2.89)])
def test_the_multiplier_refers_to_the_replace_one_sensitivity(drawn: int, realized: float, wrong: float) -> None:
    bound = spent({FixedSize(2.0, 10, drawn): 10}, 1e-4, "rdp")
    assert bound.epsilon >= realized
    assert bound.lower_bound is not None
    assert bound.lower_bound == pytest.approx(realized, rel=2e-3)
    doubled = spent({FixedSize(4.0, 10, drawn): 10}, 1e-4, "rdp")
    assert doubled.epsilon == pytest.approx(wrong, abs=0.01)
    assert doubled.epsilon < realized


# From an independent prototype.
@pytest.mark.parametrize(
    ("multiplier", "rounds", "epsilon"), [(5.03, 20, 0.998), (11.16, 100, 1.000), (2.04, 20, 3.009)]
)
def test_the_table_of_the_theory_is_reproduced(multiplier: float, rounds: int, epsilon: float) -> None:
    history = {FixedSize(multiplier, 325, 50): rounds}
    bound = spent(history, 1e-4, "rdp")
    assert bound.epsilon == pytest.approx(epsilon, abs=6e-4)
    assert bound.epsilon > spent(history, 1e-4, "pld").epsilon
    assert (bound.accountant, bound.relation) == ("rdp", "replace-one")
    assert delta_at(history, bound.epsilon, "rdp") == pytest.approx(1e-4, rel=1e-2)


@pytest.mark.parametrize("multiplier", [41.75, 41.89, 42.0, 42.15, 500.0])
def test_rounding_noise_of_high_orders_never_goes_below_the_tight_bound(multiplier: float) -> None:
    # Here orders from 128 on decide, where dp-accounting's differences are noisy by several percent.
    history = {FixedSize(multiplier, 325, 50): 20}
    assert spent(history, 1e-4, "rdp").epsilon >= spent(history, 1e-4, "pld").epsilon


@pytest.mark.parametrize(
    "event",
    [Gaussian(3.0), Laplace(3.0, 0.1), FixedSize(1.0, 100, 10), FixedSize(1.0, 100, 10, 5, 0.9), Poisson(1.0, 0.1)],
)
def test_the_tight_accountant_is_never_worse(event: Event) -> None:
    for count in (1, 30):
        rdp, pld = spent({event: count}, 1e-5, "rdp"), spent({event: count}, 1e-5)
        assert pld.epsilon <= rdp.epsilon


def test_calibration_by_rdp_reproduces_the_theory() -> None:
    # an independent prototype: 5.023 for epsilon 1 at n = 20, delta 1e-4, q = 50/325; rounded up here.
    assert 5.0225 <= calibrate(lambda z: FixedSize(z, 325, 50), 20, 1.0, 1e-4, accountant="rdp") <= 5.0235


def test_poisson_with_several_steps_is_refused() -> None:
    event = Poisson(1.0, 0.1, local_steps=2, records=100, batch_size=5, max_batch=40)
    with pytest.raises(InputError, match="local_steps = 1"):
        spent({event: 1}, 1e-5, "rdp")
