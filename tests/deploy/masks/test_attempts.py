"""A new attempt at a masked round is a new release: paid for, with noise and records of its own, and not without end."""

from pathlib import Path

import numpy as np
import pytest

from fedspd.errors import InputError
from tests.deploy.masks.test_secure import masked, silent_at
from tests.deploy.test_equal import SITES

pytestmark = pytest.mark.slow


def test_a_resumed_round_is_charged_again_and_masks_another_upload_than_the_one_before(tmp_path: Path) -> None:
    made = masked(tmp_path, protected=True, run__rounds=3)
    for place in (2, 3, 4):
        made.grid.handlers[made.node(place)] = silent_at("train.mask")
    with pytest.raises(InputError, match="got 0 that answered round 1"):
        made.serve()
    assert [made.charges(place) for place in range(SITES)] == [1] * SITES
    made.serve()
    for place in range(SITES):
        with made.store(place) as store:
            first, second = (store.reply(made.saved.run, number) for number in (1, 2))
        assert first is not None
        assert second is not None
        assert (first.round, second.round) == (1, 1), "two sums of the round may be known, with and without a site"
        assert np.all(np.frombuffer(first.upload, "<f8") != np.frombuffer(second.upload, "<f8"))
