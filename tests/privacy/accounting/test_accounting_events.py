"""Events: what a ledger stores must come back equal, and what has no proof must not get in."""

import json

import numpy as np
import pytest

from fedspd.errors import InputError
from fedspd.privacy.accounting import Event, FixedSize, Gaussian, Laplace, Poisson, from_dict, to_dict
from fedspd.privacy.accounting.events import relative_distances

EVENTS = [
    Gaussian(3.1857),
    Gaussian(0.1 + 0.2, "zero-out"),
    Laplace(0.1 + 0.2),
    Laplace(7.5, 0.013, "zero-out"),
    Laplace(7.5, 0.013, "replace-one", 162, 2),
    FixedSize(5.03, 325, 50),
    FixedSize(5.03, 325, 50, local_steps=5, contraction=0.95),
    Poisson(2.53, 50 / 325),
    Poisson(2.53, 0.15, local_steps=5, contraction=0.95, records=325, batch_size=10, max_batch=40),
]


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_an_event_survives_a_round_trip_through_json(event: Event) -> None:
    restored = from_dict(json.loads(json.dumps(to_dict(event))))
    assert restored == event
    assert hash(restored) == hash(event)


def test_numbers_of_numpy_are_stored_as_plain_numbers() -> None:
    event = FixedSize(np.float64(5.03), np.int64(325), np.int32(50))  # pyright: ignore[reportArgumentType]
    assert from_dict(json.loads(json.dumps(to_dict(event)))) == FixedSize(5.03, 325, 50)


@pytest.mark.parametrize("kind", ["with-replacement", "exponential", "FixedSize", None])
def test_an_unknown_kind_of_event_is_refused(kind: str | None) -> None:
    with pytest.raises(InputError, match="expected an event kind among"):
        from_dict({"kind": kind, "noise_multiplier": 1.0})


def test_a_missing_or_unknown_field_is_refused() -> None:
    stored = to_dict(FixedSize(5.03, 325, 50))
    with pytest.raises(InputError, match="expected the fields"):
        from_dict({**stored, "replacement": True})
    with pytest.raises(InputError, match="expected the fields"):
        from_dict({name: value for name, value in stored.items() if name != "drawn"})


def test_only_events_can_be_stored() -> None:
    with pytest.raises(InputError, match="expected an event"):
        to_dict("gaussian")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("multiplier", [0.0, -1.0, float("nan"), float("inf"), "2"])
def test_a_multiplier_that_is_not_positive_and_finite_is_refused(multiplier: float) -> None:
    for make in (Gaussian, Laplace, lambda z: FixedSize(z, 10, 5), lambda z: Poisson(z, 0.5)):
        with pytest.raises(InputError, match="noise_multiplier must be"):
            make(multiplier)


def test_a_subset_is_no_larger_than_its_shard_and_splits_into_equal_batches() -> None:
    with pytest.raises(InputError, match="drawn must be at most records = 10"):
        FixedSize(1.0, 10, 11)
    with pytest.raises(InputError, match="drawn must be a multiple of local_steps = 3"):
        FixedSize(1.0, 10, 5, local_steps=3)
    with pytest.raises(InputError, match="records must be a whole number"):
        FixedSize(1.0, 10.5, 5)  # pyright: ignore[reportArgumentType]


def test_poisson_with_several_steps_needs_the_sizes_that_its_delta_depends_on() -> None:
    with pytest.raises(InputError, match="records must be"):
        Poisson(1.0, 0.1, local_steps=2)
    with pytest.raises(InputError, match="max_batch must be a whole number of at least 10"):
        Poisson(1.0, 0.1, local_steps=2, records=100, batch_size=10, max_batch=9)


def test_rates_contractions_and_relations_out_of_range_are_refused() -> None:
    for rate in (0.0, 1.5, float("nan")):
        with pytest.raises(InputError, match="rate must lie in"):
            Poisson(1.0, rate)
    with pytest.raises(InputError, match="contraction must lie in"):
        FixedSize(1.0, 10, 4, local_steps=2, contraction=1.1)
    with pytest.raises(InputError, match="relation must be one of"):
        Gaussian(1.0, "add-remove")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="relation must be one of"):
        Laplace(1.0, 0.0, "add-remove")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("jacobian", [-0.1, float("nan"), float("inf"), "0"])
def test_a_jacobian_that_is_negative_or_not_finite_is_refused(jacobian: float) -> None:
    with pytest.raises(InputError, match="jacobian must be finite and at least 0"):
        Laplace(1.0, jacobian)


def test_dimension_and_directions_come_together_and_the_directions_are_fewer() -> None:
    with pytest.raises(InputError, match="directions must be a whole number of at least 1, got None"):
        Laplace(1.0, dimension=10)
    with pytest.raises(InputError, match="dimension must be a whole number of at least 3, got None"):
        Laplace(1.0, directions=2)
    with pytest.raises(InputError, match="dimension must be a whole number of at least 3, got 2"):
        Laplace(1.0, dimension=2, directions=2)
    with pytest.raises(InputError, match="directions must be a whole number of at least 1, got 0"):
        Laplace(1.0, dimension=10, directions=0)


def test_a_pure_release_costs_the_inverse_of_its_multiplier_and_its_jacobian() -> None:
    assert Laplace(4.0).epsilon == 0.25
    assert Laplace(4.0, 0.5).epsilon == 0.75


def test_a_records_distance_shrinks_with_the_step_it_falls_into() -> None:
    gamma, rho, steps = 19.0, 1.0, 5
    contraction = gamma / (gamma + rho)
    # Directly: a unit gap at step r, contracted in each later step, averaged over the Q iterates.
    gaps = [sum(contraction**j for j in range(steps - r + 1)) / steps for r in range(1, steps + 1)]
    expected = [gap / gaps[0] for gap in gaps]
    assert relative_distances(steps, contraction) == pytest.approx(expected, rel=1e-12)
    assert relative_distances(4, 1.0) == pytest.approx([1.0, 0.75, 0.5, 0.25])
    assert relative_distances(4, 1.0 - 1e-12) == pytest.approx([1.0, 0.75, 0.5, 0.25])
    assert relative_distances(3, 0.0) == (1.0, 1.0, 1.0)
