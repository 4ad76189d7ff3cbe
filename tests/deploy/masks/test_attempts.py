"""A new attempt at a masked round is a new release: paid for, with noise and records of its own."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from fedspd.deploy.protocol import messages
from fedspd.errors import InputError
from tests.deploy.masks.test_secure import masked, silent_at
from tests.deploy.test_equal import SITES
from tests.support.deploy.sites import Federation
from tests.support.deploy.twists import mean_of_totals, standing

pytestmark = pytest.mark.slow


def cut_off(made: Federation, stage: str, places: Iterable[int] = (2, 3, 4)) -> None:
    """The answers of too many are lost at one stage, and the server ends."""
    for place in places:
        made.grid.handlers[made.node(place)] = silent_at(stage)
    with pytest.raises(InputError, match="got 0 that"):
        made.serve()


def charges(made: Federation) -> list[int]:
    return [made.charges(place) for place in range(SITES)]


@pytest.mark.parametrize("stage", ["train.mask", "train.confirm", "train.unmask"])
def test_a_resumed_round_is_charged_again_and_masks_another_upload_than_the_one_before(
    stage: str, tmp_path: Path
) -> None:
    made = masked(tmp_path, protected=True, run__rounds=3)
    cut_off(made, stage)
    assert charges(made) == [1] * SITES
    made.serve()
    for place in range(SITES):
        with made.store(place) as store:
            first, second = (store.reply(made.saved.run, number) for number in (1, 2))
        assert first is not None
        assert second is not None
        assert (first.round, second.round) == (1, 1), "two sums of the round may be known, with and without a site"
        assert np.all(np.frombuffer(first.upload, "<f8") != np.frombuffer(second.upload, "<f8"))


def test_an_attempt_that_came_to_nothing_costs_a_round_of_the_plan_and_the_run_ends_earlier(tmp_path: Path) -> None:
    made = masked(tmp_path, protected=True, run__rounds=3)
    cut_off(made, "train.mask")
    checkpoint = made.serve()
    assert (checkpoint.round, checkpoint.finished) == (2, True)
    assert charges(made) == [3] * SITES, "as many as the plan has, and no more"
    assert "has played all rounds of the run that were planned for it" in "".join(made.said)
    np.testing.assert_allclose(standing(checkpoint), mean_of_totals(made), rtol=0, atol=1e-9)


@pytest.mark.parametrize("stage", ["train.exchange", "train.deal"])
def test_an_attempt_that_ends_before_anything_is_masked_costs_nothing(stage: str, tmp_path: Path) -> None:
    made = masked(tmp_path, protected=True, run__rounds=2)
    cut_off(made, stage)
    assert charges(made) == [0] * SITES
    assert made.serve().round == 2
    assert charges(made) == [2] * SITES


def test_moments_are_released_once_and_a_run_that_lost_them_says_so(tmp_path: Path) -> None:
    made = masked(tmp_path, protected=True, data__scaling="noisy-moments", run__rounds=2)
    cut_off(made, "train.measure_masked")
    assert charges(made) == [1] * SITES
    with pytest.raises(InputError, match="got 0 that released their moments"):
        made.serve()
    assert charges(made) == [1] * SITES
    assert "has released its moments, and the run plans no second release" in "".join(made.said)


def test_moments_whose_attempt_ended_before_anything_was_masked_are_asked_for_again(tmp_path: Path) -> None:
    made = masked(tmp_path, protected=True, data__scaling="noisy-moments", run__rounds=1)
    cut_off(made, "train.deal")
    assert charges(made) == [0] * SITES
    assert made.serve().round == 1
    assert charges(made) == [2] * SITES


def test_moments_are_not_released_in_the_name_of_a_round(tmp_path: Path) -> None:
    made = masked(tmp_path, protected=True, data__scaling="noisy-moments")
    terms = made.enter()
    refused = made.tell(0, messages.MeasureMasked(terms.digest, 1, "attempt", {}, {}))
    assert isinstance(refused, messages.Refused)
    assert refused.reason == "moments are asked for before round 1, got round 1."
    assert made.charges() == 0
