"""Whole shards in several local steps: a record's step is random, so less noise is needed than for the worst step."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from fedspd.errors import InputError
from fedspd.privacy import WHOLE_SHARD, RecordSampling, plan_proved
from fedspd.privacy.accounting import FixedSize, Gaussian, calibrate, delta_at, from_dict, spent, to_dict
from fedspd.privacy.accounting.events import relative_distances, step_chances
from fedspd.privacy.plans.sampling import sizes_that_matter

Points = NDArray[np.float64]


def log_density(centers: Points, noise: float, points: Points) -> Points:
    """Of a mixture of plane Gaussians in equal parts, on a grid."""
    parts = [
        np.add.outer(-((points - first) ** 2), -((points - second) ** 2)) / (2 * noise**2) for first, second in centers
    ]
    return np.logaddexp.reduce(parts, axis=0) - np.log(len(centers) * 2 * np.pi * noise**2)


def realized(event: FixedSize, epsilon: float) -> float:
    """Of a record that flips along one axis, while all others pull along the other one and so show where it stands."""
    far = np.array(relative_distances(event.local_steps, event.contraction))
    steps = np.arange(event.records) % event.local_steps
    others = np.array([far[np.delete(steps, place)].sum() for place in range(event.records)])
    here, there = (np.stack([side * far[steps] / 2, others / 2], axis=1) for side in (1, -1))
    reach = 8 * event.noise_multiplier
    points = np.linspace(-0.5 - reach, max(0.5, others.max() / 2) + reach, 1201)
    first, second = (log_density(centers, event.noise_multiplier, points) for centers in (here, there))
    gained = np.exp(first) * -np.expm1(np.minimum(epsilon + second - first, 0.0))
    return float(gained.sum() * (points[1] - points[0]) ** 2)


@pytest.mark.parametrize(
    ("records", "steps"),
    [(2, 2), (3, 2), (3, 3), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((5, 3), (7, 3)))],
)
@pytest.mark.parametrize("multiplier", [0.1, 0.7, 3.0])
def test_a_record_whose_step_shows_does_not_beat_the_bound(records: int, steps: int, multiplier: float) -> None:
    event = FixedSize(multiplier, records, records, steps, 0.6)
    for epsilon in (0.0, 0.3, 1.0, 4.0, 20.0):
        assert realized(event, epsilon) <= delta_at({event: 1}, epsilon) * (1 + 1e-4) + 1e-9


@pytest.mark.parametrize(("records", "steps"), [(2, 2), (3, 2), (5, 2)])
def test_where_the_step_shows_the_bound_is_attained(records: int, steps: int) -> None:
    """With little noise what the others pulled tells the step: nothing is gained from hiding it."""
    event = FixedSize(0.03, records, records, steps, 0.6)
    for epsilon in (190.0, 210.0, 230.0):
        reached, bound = realized(event, epsilon), delta_at({event: 1}, epsilon)
        assert 0.05 < bound < 0.98
        assert reached >= 0.995 * bound


def test_the_worst_step_would_be_charged_for_more_and_is_not_attained() -> None:
    event = FixedSize(0.03, 3, 3, 2, 0.6)
    assert realized(event, 560.0) < 0.8 * delta_at({Gaussian(0.03): 1}, 560.0)


@pytest.mark.parametrize(
    ("steps", "contraction", "participations", "delta", "before", "after"),
    [
        (5, 0.95, 20, 1e-4, 14.247, 9.952),
        (5, 0.8, 5, 1e-5, 8.342, 6.640),
        (2, 0.5, 5, 1e-5, 8.342, 7.384),
        (10, 0.5, 20, 1e-4, 14.247, 13.096),
    ],
)
def test_the_noise_falls_by_a_tenth_to_a_half(
    steps: int, contraction: float, participations: int, delta: float, before: float, after: float
) -> None:
    sizes = np.array([325])
    worst = plan_proved(1.0, delta, RecordSampling(WHOLE_SHARD, None, steps), sizes, participations)
    random = plan_proved(1.0, delta, RecordSampling(WHOLE_SHARD, None, steps, contraction), sizes, participations)
    assert worst.noise_multipliers[0] == pytest.approx(before, rel=1e-4)
    assert random.noise_multipliers[0] == pytest.approx(after, rel=1e-3)
    assert 1.05 < before / after < 1.5
    assert random.spent(np.array([0]), np.array([participations]))[0] <= 1.0


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_an_uneven_shard_costs_a_little_more_than_an_even_one_and_less_than_the_worst_step(accountant: str) -> None:
    even, uneven, fewer = (
        spent({FixedSize(3.0, records, records, 5, 0.9): 4}, 1e-5, accountant).epsilon  # pyright: ignore[reportArgumentType]
        for records in (25, 27, 7)
    )
    worst = spent({Gaussian(3.0): 4}, 1e-5, accountant).epsilon  # pyright: ignore[reportArgumentType]
    assert even < uneven < fewer < worst


def test_without_contraction_every_step_is_charged_like_the_worst() -> None:
    sampling = RecordSampling(WHOLE_SHARD, None, 5, 0.0)
    assert sampling.event(325, 2.0) == Gaussian(2.0)
    assert calibrate(lambda z: FixedSize(z, 27, 27, 5), 3, 1.0, 1e-5) == pytest.approx(
        calibrate(Gaussian, 3, 1.0, 1e-5), rel=1e-4
    )


def test_the_chances_of_the_steps_are_the_sizes_of_the_batches() -> None:
    assert step_chances(7, 3) == (3 / 7, 2 / 7, 2 / 7)
    assert step_chances(8, 3) == (3 / 8, 3 / 8, 2 / 8)
    assert step_chances(6, 3) == (2 / 6, 2 / 6, 2 / 6)


def test_an_uneven_event_survives_its_file_and_one_with_more_steps_than_records_is_refused() -> None:
    event = FixedSize(2.0, 27, 27, 5, 0.9)
    assert from_dict(to_dict(event)) == event
    with pytest.raises(InputError, match="records must be at least local_steps = 5, got 4; take fewer steps"):
        FixedSize(2.0, 4, 4, 5, 0.9)


@pytest.mark.parametrize("steps", [2, 3, 5, 8, 13])
def test_sizes_that_stand_for_others_have_their_records_no_later(steps: int) -> None:
    """A record of every shard is among the first r steps no more often than in the one that stands for it."""
    sizes = np.arange(steps, 700)
    chosen = sizes_that_matter(RecordSampling(WHOLE_SHARD, None, steps, 0.9), sizes)
    assert len(np.unique(chosen)) <= 12 + 4 * steps
    assert (chosen[sizes > 100] >= sizes[sizes > 100] / 6).all()
    for size, other in zip(sizes.tolist(), chosen.tolist(), strict=True):
        own, others = (list(itertools.accumulate(step_chances(records, steps))) for records in (size, other))
        assert all(first <= second + 1e-12 for first, second in zip(own, others, strict=True))


def test_many_sizes_of_whole_shards_all_stay_within_the_budget() -> None:
    sizes = np.arange(12, 300, 7)
    plan = plan_proved(1.0, 1e-5, RecordSampling(WHOLE_SHARD, None, 5, 0.9), sizes, 5)
    assert len(plan.groups) < len(sizes) / 2
    for size, multiplier in zip(sizes.tolist(), plan.noise_multipliers.tolist(), strict=True):
        assert spent({FixedSize(multiplier, size, size, 5, 0.9): 5}, 1e-5).epsilon <= 1.0
