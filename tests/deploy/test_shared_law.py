"""Real sums of sites that share noise: its law and scale with as few arrivals as there may be, and one who tells."""

from collections.abc import Callable
from dataclasses import replace
from math import floor, log2, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedspd.deploy.protocol import sums
from fedspd.deploy.protocol.sums import round_part
from fedspd.deploy.site.computing import parts
from fedspd.engine import release as door
from fedspd.errors import InputError
from fedspd.privacy import SharedNoise
from fedspd.privacy.discrete import MemberNoise, member_noise
from tests.deploy.masks.test_secure import silent_at
from tests.deploy.test_statistics import WIDE
from tests.support.deploy.shared import Seen, pooled_query, sharing, watch
from tests.support.deploy.sites import Federation

ROUNDS, SITES, AWAY, TELLS = 40, 5, 4, 0
THRESHOLD, HONEST = 4, 3


def wide(folder: Path, rounds: int = ROUNDS) -> Federation:
    """Sites whose parts have many entries; one of them never answers in time."""
    made = sharing(folder, SITES, site={"policy.most_rounds": rounds}, run__rounds=rounds, algorithm__inverse_step=2.0)
    for path in (made.folder, *(site.parent for site in made.sites)):
        (path / "schema.toml").write_text(WIDE)
    made.grid.handlers[made.node(AWAY)] = silent_at("train.mask", times=rounds)
    return made


class Expected:
    """The numbers of the proof, worked out by hand from the settings of the run."""

    def __init__(self, made: Federation, dimension: int) -> None:
        terms = made.terms()
        z = float(terms.agreed(made.schema).plan.noise_multipliers[0])
        moves = 2 * 0.5 / sum(terms.sizes)
        self.grid = 2.0 ** floor(log2(min(0.01 * moves / sqrt(dimension), z * moves / sqrt(HONEST) / 16)))
        self.sensitivity = moves + sqrt(dimension) * self.grid
        self.claimed = z * self.sensitivity
        self.scale = sqrt((self.claimed**2 + 4 * self.grid**2) / HONEST)


def left_over(made: Federation, seen: Seen) -> np.ndarray:
    """What server and colluder do not know of each sum, over the deviation that the honest members' noise must have."""
    found = []
    for one in seen.sums:
        assert one.arrived == tuple(place for place in range(SITES) if place != AWAY)
        expected = Expected(made, one.total.size)
        told = next(part for part in seen.parts if (part.place, part.round) == (TELLS, one.round))
        known = expected.grid * told.numbers.view(np.int64).reshape(one.total.shape)
        hidden = one.total - known - pooled_query(made, one.weights, [1, 2, 3])
        found.append(hidden.ravel() / (sqrt(HONEST) * expected.scale))
    return np.concatenate(found)


def noise_is_standard(values: np.ndarray) -> bool:
    """Mean 0, deviation 1 and Gaussian, by tests that err once in a hundred thousand times; steps may repeat."""
    squares, size = float(np.sum(values**2)), values.size
    low, high = stats.chi2(size).ppf([5e-6, 1 - 5e-6])
    return bool(
        low < squares < high and abs(values.mean()) < 4.6 / np.sqrt(size) and stats.kstest(values, "norm").pvalue > 1e-5  # pyright: ignore[reportAttributeAccessIssue]
    )


@pytest.mark.slow
@pytest.mark.lengthy
def test_what_is_left_of_a_sum_with_the_fewest_arrivals_and_one_who_tells_is_the_noise_that_was_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = wide(tmp_path)
    seen = watch(monkeypatch, made)
    values = left_over(made, seen)
    assert values.size > 20_000
    assert noise_is_standard(values)
    assert not noise_is_standard(1.05 * values), "the test sees noise that is 5 % too large"
    assert not noise_is_standard(0.95 * values), "and noise that is 5 % too small"
    assert not noise_is_standard(values + 0.1), "and a query that is a tenth of the noise away"
    expected = Expected(made, seen.sums[0].total.size)
    assert HONEST * expected.scale**2 - 4 * expected.grid**2 >= expected.claimed**2 * (1 - 1e-12)
    assert all(one.numbers.dtype == np.uint64 for one in seen.parts)


Twisted = Callable[..., Any]


def for_members_of(honest: Callable[[SharedNoise], int]) -> Twisted:
    """Noise that counts on so many."""

    def twisted(share: SharedNoise, multiplier: float, sensitivity: float, dimension: int) -> MemberNoise:
        right = member_noise(share, multiplier, sensitivity, dimension)
        return replace(right, scale=right.scale * sqrt(share.honest / honest(share)))

    return twisted


def from_own_size(terms: Any, agreed: Any, columns: int) -> Any:
    own = terms.sizes[terms.place]
    return round_part(replace(terms, sizes=(own,)), agreed, columns)


BUGS: dict[str, tuple[Any, str, Twisted]] = {
    "noise for all members": (sums, "member_noise", for_members_of(lambda share: share.members)),
    "noise for the threshold": (sums, "member_noise", for_members_of(lambda share: share.threshold)),
    "noise from the site's own size": (parts, "round_part", from_own_size),
    "noise of the whole sum at each": (sums, "member_noise", for_members_of(lambda share: 1)),
    "the same noise in every round": (
        door, "whole_gaussian",
        lambda query, scale, grid, reach: door.Release(
            (np.rint(query.value / grid).astype(np.int64) + np.int64(scale / grid)).view(np.uint64)
        ),
    ),
}  # fmt: skip
QUICK = ("noise for all members", "noise for the threshold")


@pytest.mark.parametrize(
    "bug", [None, *(pytest.param(bug, marks=() if bug in QUICK else pytest.mark.slow) for bug in BUGS)]
)
def test_other_noise_than_that_of_the_honest_members_is_found_out(
    bug: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = wide(tmp_path, 6)
    with monkeypatch.context() as patch:
        if bug is not None:
            patch.setattr(*BUGS[bug])
        seen = watch(patch, made)
    assert noise_is_standard(left_over(made, seen)) is (bug is None)


def test_every_member_of_a_sum_has_the_same_grid_range_and_noise(tmp_path: Path) -> None:
    made = sharing(tmp_path, data__scaling="noisy-moments")
    found = set[Any]()
    for place in range(SITES):
        terms = made.terms(place)
        agreed = terms.agreed(made.schema)
        found.add((round_part(terms, agreed, 6), sums.moments_part(terms, agreed, made.schema)))
    assert len(found) == 1


def coarse(share: SharedNoise, multiplier: float, sensitivity: float, dimension: int) -> MemberNoise:
    """Noise of a step and a half, where sums of it are no Gaussian's."""
    right = member_noise(share, multiplier, sensitivity, dimension)
    return replace(right, grid=right.scale / 1.5)


def test_planted_a_grid_on_which_noise_is_not_as_good_as_a_gaussian_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sharing(tmp_path)
    made.terms().agreed(made.schema)
    monkeypatch.setattr(sums, "member_noise", coarse)
    with pytest.raises(InputError, match=r"may differ from a Gaussian by 1e-12 in all releases .*, got \d.*e-0"):
        made.terms().agreed(made.schema)


def test_a_run_with_so_many_coordinates_that_gaps_add_up_is_refused() -> None:
    one = sums.Part(MemberNoise(grid=1.0, sensitivity=1.0, scale=16.0, alone=1.0), reach=1.0, size=10**9)
    sums.check_gap([(one, 10**12)], HONEST)
    with pytest.raises(InputError, match="plan fewer rounds"):
        sums.check_gap([(one, 10**12), (one, 10**13)], HONEST)
