"""From a budget to noise and caps, and back."""

import numpy as np
import pytest

from fedspd.errors import InputError
from fedspd.privacy import (
    POISSON,
    WHOLE_SHARD,
    WITH_REPLACEMENT,
    WITHOUT_REPLACEMENT,
    RecordSampling,
    plan_proved,
)
from fedspd.privacy.accounting import FixedSize, Gaussian, Laplace, Minimizer, Poisson, spent
from fedspd.privacy.plans.sampling import largest_batch

SIZES = np.repeat([326, 325], [61, 39])


@pytest.mark.parametrize(("epsilon", "single"), [(1.0, 3.1857), (0.1, 24.508), (3.0, 1.2232)])
def test_whole_shards_need_the_one_shot_multiplier_times_the_root_of_the_participations(
    epsilon: float, single: float
) -> None:
    """One-shot multipliers of the analytic Gaussian mechanism at delta 1e-4 (Balle & Wang 2018)."""
    for participations in (1, 5, 20):
        plan = plan_proved(epsilon, 1e-4, RecordSampling(WHOLE_SHARD), SIZES, participations)
        assert plan.noise_multipliers == pytest.approx(single * participations**0.5, rel=1e-4)


@pytest.mark.parametrize(
    "sampling",
    [
        RecordSampling(WHOLE_SHARD),
        RecordSampling(WITHOUT_REPLACEMENT, 50),
        RecordSampling(WITHOUT_REPLACEMENT, 10, 5, 0.9),
        RecordSampling(POISSON, 50),
        RecordSampling(POISSON, 10, 5, 0.9, max_batch=40),
        RecordSampling(WHOLE_SHARD, law="laplace", dimension=162, directions=1),
        RecordSampling(WHOLE_SHARD, law="objective", jacobian=0.01, dimension=162, directions=2),
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_every_client_ends_within_its_budget_and_close_to_it(sampling: RecordSampling, share: float) -> None:
    plan = plan_proved(1.0, 1e-5, sampling, SIZES, 20, share)
    everyone = np.arange(100)
    ends = plan.spent(everyone, plan.most_participations)
    assert (ends <= 1.0).all()
    assert (ends > 0.97).all()
    assert (plan.spent(everyone, plan.most_participations - 1) < ends).all()
    start = plan.spent(everyone, np.zeros(100, int))
    assert ((start > 0) == (share > 0)).all(), "the release of moments costs, and nothing else does before round 1"


def test_a_typed_multiplier_becomes_the_epsilon_it_costs() -> None:
    plan = plan_proved(99.0, 1e-4, RecordSampling(WITHOUT_REPLACEMENT, 50), SIZES, 20, noise_multiplier=5.03)
    assert plan.budgets[-1] == spent([(FixedSize(5.03, 325, 50), 20)], 1e-4).epsilon
    assert plan.budgets[-1] == pytest.approx(0.4308, rel=0.005)
    assert plan.budgets[0] < plan.budgets[-1], "a larger shard is drawn from more rarely"


def test_budgets_may_differ_and_each_client_gets_its_own_noise() -> None:
    budgets = np.where(np.arange(100) < 50, 0.5, 2.0)
    plan = plan_proved(budgets, 1e-5, RecordSampling(WHOLE_SHARD), SIZES, 10)
    np.testing.assert_array_equal(plan.budgets, budgets)
    assert plan.noise_multipliers[0] > 3 * plan.noise_multipliers[99]
    assert (plan.spent(np.arange(100), plan.most_participations) <= budgets).all()


def test_smaller_shards_get_more_noise_under_subsampling() -> None:
    plan = plan_proved(1.0, 1e-5, RecordSampling(WITHOUT_REPLACEMENT, 10), np.array([20, 100, 1000]), 10)
    first, second, third = plan.noise_multipliers
    assert first > second > third


def test_many_shard_sizes_are_rounded_down_so_that_no_client_gets_too_little_noise() -> None:
    sizes = np.arange(60, 400)
    plan = plan_proved(1.0, 1e-5, RecordSampling(WITHOUT_REPLACEMENT, 10), sizes, 5)
    assert len(plan.groups) <= 12
    for client in (0, 17, 200, 339):
        true_cost = spent([(FixedSize(plan.noise_multipliers[client], int(sizes[client]), 10), 5)], 1e-5)
        assert true_cost.epsilon <= 1.0


def test_shard_sizes_are_not_rounded_where_a_larger_shard_means_a_larger_chance_of_an_oversized_batch() -> None:
    sizes = np.arange(60, 80)
    plan = plan_proved(1.0, 1e-5, RecordSampling(POISSON, 5, 2, 0.5, max_batch=40), sizes, 2)
    assert [plan.event(client).records for client in range(20)] == sizes.tolist()  # pyright: ignore


def test_events_say_what_the_engine_does() -> None:
    assert RecordSampling(WHOLE_SHARD).event(325, 2.0) == Gaussian(2.0)
    assert RecordSampling(WITHOUT_REPLACEMENT, 10, 5, 0.9).event(325, 2.0) == FixedSize(2.0, 325, 50, 5, 0.9)
    assert RecordSampling(WHOLE_SHARD, law="laplace").event(325, 2.0) == Laplace(2.0)
    in_objective = RecordSampling(WHOLE_SHARD, law="objective", jacobian=0.1, dimension=16, directions=2)
    assert in_objective.event(325, 2.0) == Minimizer(2.0, 25 * 2.0 * 4, 0.1, 16, 2)
    assert RecordSampling(POISSON, 50).event(500, 2.0) == Poisson(2.0, 0.1)
    assert RecordSampling(POISSON, 10, 5, 0.9, 30).event(500, 2.0) == Poisson(2.0, 0.1, 5, 0.9, 500, 10, 30)


def test_sampling_with_replacement_has_no_proved_plan() -> None:
    with pytest.raises(InputError, match=r"there is no proof for it, use the published preset"):
        plan_proved(1.0, 1e-5, RecordSampling(WITH_REPLACEMENT, 10), SIZES, 5)


def test_the_limit_on_batches_leaves_nearly_all_of_delta_and_one_less_would_not() -> None:
    limit = largest_batch(325, 10, 5, 20, 1.0, 1e-5)
    assert 10 < limit < 60
    with_limit = spent([(Poisson(3.0, 50 / 325, 5, 0.9, 325, 10, limit), 20)], 1e-5).epsilon
    without = spent([(Poisson(3.0, 50 / 325, 5, 0.9, 325, 10, 325), 20)], 1e-5).epsilon
    assert without <= with_limit <= 1.02 * without


@pytest.mark.parametrize("changes", [{"law": "laplace"}, {"law": "objective"}, {"blocks": 2}])
@pytest.mark.parametrize("scheme", [WITHOUT_REPLACEMENT, POISSON, WITH_REPLACEMENT])
def test_noise_of_pure_privacy_and_noise_that_is_remembered_have_no_plan_but_for_whole_shards(
    scheme: str, changes: dict
) -> None:
    with pytest.raises(InputError, match=f"need the whole shard, got {scheme}; leave algorithm.batch_size out"):
        RecordSampling(scheme, 10, **changes)


def test_pure_rounds_cost_no_more_than_they_add_up_to_and_many_of_them_cost_less() -> None:
    """A round costs 1/z; at a delta, composition is better than the sum."""
    for rounds, gain in ((1, 1.0), (30, 0.8)):
        plan = plan_proved(
            9.0,
            1e-5,
            RecordSampling(WHOLE_SHARD, law="laplace"),
            SIZES,
            rounds,
            noise_multiplier=10.0,
        )
        total = float(plan.spent(np.array([0]), np.array([rounds]))[0])
        assert total <= rounds * 0.1 * (1 + 1e-9)
        assert total < gain * rounds * 0.1 * (1 + 1e-9)
        assert plan.law == "laplace"


def test_determinants_leave_less_for_noise_and_too_much_of_them_is_refused_with_a_remedy() -> None:
    def multiplier(jacobian: float) -> float:
        sampling = RecordSampling(WHOLE_SHARD, law="objective", jacobian=jacobian, dimension=162, directions=2)
        return plan_proved(1.0, 1e-5, sampling, SIZES, 4).noise_multipliers[0]

    assert multiplier(0.0) < multiplier(0.1) < multiplier(0.2)
    with pytest.raises(InputError, match=r"raise algorithm.penalty or the budget"):
        multiplier(0.3)


def test_a_client_is_charged_when_it_begins_a_turn_of_its_blocks() -> None:
    plan = plan_proved(1.0, 1e-5, RecordSampling(WHOLE_SHARD, blocks=3), SIZES, 7)
    assert plan.is_charged(np.arange(7)).tolist() == [True, False, False, True, False, False, True]
    spent_so_far = plan.spent(np.zeros(8, int), np.arange(8))
    assert (np.diff(spent_so_far) > 0).tolist() == [True, False, False, True, False, False, True]
    always = plan_proved(1.0, 1e-5, RecordSampling(WHOLE_SHARD), SIZES, 7)
    assert always.is_charged(np.arange(7)).all()
