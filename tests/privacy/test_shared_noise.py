"""Noise that members share: the conditions of the proof, its numbers, and games that a server plays against them."""

from collections.abc import Callable
from itertools import combinations, product
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspd.errors import InputError
from fedspd.privacy.accounting import Gaussian, calibrate, spent
from fedspd.privacy.shared_noise import SharedNoise, usual_colluders, usual_threshold

SMALL = [(n, t, c) for n in range(3, 8) for t in range(1, n + 1) for c in range(t)]
"""Cohorts small enough to try everything: members, threshold, colluders."""

Condition = Callable[[int, int, int], bool]


def accepted(members: int, threshold: int, colluders: int) -> bool:
    try:
        SharedNoise(members, threshold, colluders)
    except InputError:
        return False
    return True


def majority(members: int, threshold: int, colluders: int) -> bool:
    """A planted bug: the colluders are forgotten."""
    return 2 * threshold > members


def two_sums_are_signed(members: int, threshold: int, colluders: int) -> bool:
    """Can a server get `threshold` signatures on each of two sets, if an honest member signs one set that it is in?

    The last members collude and sign everything.
    """
    honest = set(range(members - colluders))
    sets = [set(one) for size in range(threshold, members + 1) for one in combinations(range(members), size)]
    for first, second in combinations(sets, 2):
        both = len(honest & first & second)
        short = [
            max(0, threshold - colluders - len(honest & one - other))
            for one, other in ((first, second), (second, first))
        ]
        if sum(short) <= both:
            return True
    return False


def a_member_is_cut_off(members: int, threshold: int, colluders: int, least_masked_with: int) -> bool:
    """Can a server get `threshold` signatures on a set whose honest members are not all joined by masks?

    Those who sign have masked with the whole set. The others have masked with whomever the server showed them,
    `least_masked_with` or more, themselves included. It takes one of them who shares no mask with an honest signer.
    """
    honest = range(members - colluders)
    for signed in combinations(honest, threshold - colluders):
        for lone in set(honest) - set(signed):
            others = [one for one in range(members) if one != lone]
            sizes = range(least_masked_with - 1, members)
            if any(not set(masked) & set(signed) for size in sizes for masked in combinations(others, size)):
                return True
    return False


def joined(members: list[int], masked_with: dict[int, set[int]]) -> bool:
    """Whether masks join all of them: two share one where each has masked with the other."""
    found, left = {members[0]}, set(members[1:])
    while near := {one for one in left if any(one in masked_with[two] and two in masked_with[one] for two in found)}:
        found, left = found | near, left - near
    return not left


def left_in_every_sum(share: SharedNoise, multiplier: float, sensitivity: float, grid: float) -> float:
    """The multiplier left in the worst sum: of all sets that may be unmasked, for all who may tell their noise."""
    variance = share.member_scale(multiplier, sensitivity, grid) ** 2
    places = range(share.members)
    kept = min(
        len(set(arrived) - set(telling))
        for size in range(share.threshold, share.members + 1)
        for arrived, telling in product(combinations(places, size), combinations(places, share.colluders))
    )
    return sqrt(kept * variance - 4 * grid**2) / sensitivity


class ForAllMembers(SharedNoise):
    """A planted bug: everybody's noise is counted on."""

    @property
    def honest(self) -> int:
        return self.members


class ForAllThatArrive(SharedNoise):
    """A planted bug: the noise of those who collude is counted on."""

    @property
    def honest(self) -> int:
        return self.threshold


def falls_short(kind: type[SharedNoise]) -> bool:
    return any(
        left_in_every_sum(kind(*cohort), 2.5, 1.3, 0.01) < 2.5 * (1 - 1e-12)
        for cohort in SMALL
        if accepted(*cohort) and cohort[0] <= 6
    )


def is_broken(condition: Condition) -> bool:
    """Does a condition let a cohort through in which a server unmasks two sums?"""
    return any(condition(*cohort) and two_sums_are_signed(*cohort) for cohort in SMALL)


def cuts_off(condition: Condition, least: Callable[[int], int]) -> bool:
    """Does a condition let a cohort through in which a server unmasks less than the sum of all honest members?"""
    return any(condition(*cohort) and a_member_is_cut_off(*cohort, least(cohort[1])) for cohort in SMALL)


CHECKS: dict[str, tuple[Callable[[], bool], Callable[[], bool]]] = {
    # what was planted: (the check on the truth, the check on the bug); a check says whether it is red
    "noise for all members": (lambda: falls_short(SharedNoise), lambda: falls_short(ForAllMembers)),
    "noise for the threshold": (lambda: falls_short(SharedNoise), lambda: falls_short(ForAllThatArrive)),
    "2t > n instead of n + c: two sums": (lambda: is_broken(accepted), lambda: is_broken(majority)),
    "2t > n instead of n + c: a member cut off": (
        lambda: cuts_off(accepted, lambda threshold: threshold),
        lambda: cuts_off(majority, lambda threshold: threshold),
    ),
    "fewer than the threshold can put a member's secrets together": (
        lambda: cuts_off(accepted, lambda threshold: threshold),
        lambda: cuts_off(accepted, lambda threshold: threshold - 1),
    ),
}


@pytest.mark.parametrize("bug", CHECKS)
def test_the_truth_is_green_and_the_planted_bug_is_red(bug: str) -> None:
    on_truth, on_bug = CHECKS[bug]
    assert not on_truth()
    assert on_bug()


def test_the_condition_refuses_no_cohort_in_which_sums_are_unique() -> None:
    """It is exact: where it fails two sums can be signed, but for thresholds that leave no two sets."""
    assert {cohort for cohort in SMALL if not accepted(*cohort)} == {
        cohort for cohort in SMALL if two_sums_are_signed(*cohort)
    }


@given(st.data())
def test_whatever_keys_a_server_shows_to_whom_masks_join_all_honest_members_of_a_signed_set(
    data: st.DataObject,
) -> None:
    """Lemma S2: then nothing but the sum of all of them can be unmasked."""
    members, threshold, colluders = data.draw(st.sampled_from([cohort for cohort in SMALL if accepted(*cohort)]))
    everybody, honest = set(range(members)), set(range(members - colluders))
    among = st.sets(st.sampled_from(sorted(everybody)))
    arrived = data.draw(among.filter(lambda found: len(found) >= threshold))
    can_sign = sorted(honest & arrived)
    signed = data.draw(st.sets(st.sampled_from(can_sign), min_size=threshold - colluders))
    masked_with = {
        one: arrived
        if one in signed
        else data.draw(among.map(lambda found, one=one: found | {one}).filter(lambda found: len(found) >= threshold))
        for one in can_sign
    }
    assert joined(can_sign, masked_with)


@pytest.mark.parametrize(
    ("cohort", "honest"), [((100, 80, 13), 67), ((20, 16, 3), 13), ((3, 3, 2), 1), ((6, 4, 1), 3), ((20, 14, 6), 8)]
)
def test_the_noise_of_the_threshold_less_the_colluders_is_counted_on(cohort: tuple[int, int, int], honest: int) -> None:
    assert SharedNoise(*cohort).honest == honest


@pytest.mark.parametrize(
    ("cohort", "text"),
    [
        ((2, 2, 0), "at least 3 members for secure sums, got 2; lower privacy.cohorts"),
        ((20, 11, 3), "got threshold 11 and colluders 3; with these colluders it is from 12 to 20"),
        ((20, 10, 0), "got threshold 10 and colluders 0; with these colluders it is from 11 to 20"),
        ((20, 21, 3), "got threshold 21 and colluders 3; with these colluders it is from 12 to 20"),
        ((20, 16, 16), "got threshold 16 and colluders 16; with these colluders it is from 19 to 20"),
        ((20, 20, 20), "privacy.colluders must be from 0 to 19 in a cohort of 20, got 20; lower it"),
        ((20, 16, -1), "privacy.colluders must be from 0 to 19 in a cohort of 20, got -1; raise it to 0"),
    ],
)
def test_a_cohort_for_which_nothing_is_proved_is_refused_with_what_to_do(
    cohort: tuple[int, int, int], text: str
) -> None:
    with pytest.raises(InputError) as refusal:
        SharedNoise(*cohort)
    assert text in str(refusal.value)


@pytest.mark.parametrize(("members", "threshold", "colluders"), [(100, 80, 13), (20, 16, 3), (3, 3, 1), (5, 4, 1)])
def test_by_rule_four_fifths_must_arrive_and_two_thirds_are_counted_on(
    members: int, threshold: int, colluders: int
) -> None:
    assert usual_threshold(members) == threshold
    assert usual_colluders(members, threshold) == colluders


@given(st.integers(3, 100_000))
def test_the_rule_is_proved_for_every_cohort(members: int) -> None:
    threshold = usual_threshold(members)
    share = SharedNoise(members, threshold, usual_colluders(members, threshold))
    assert abs(share.honest - 2 * members / 3) <= 0.5


@given(st.floats(0.1, 100), st.floats(1e-3, 1e3), st.floats(0, 0.01))
def test_a_member_adds_what_the_proof_asks_for_and_has_alone_what_is_said(
    multiplier: float, sensitivity: float, fine: float
) -> None:
    share, grid = SharedNoise(100, 80, 13), fine * multiplier * sensitivity
    scale = share.member_scale(multiplier, sensitivity, grid)
    assert 67 * scale**2 - 4 * grid**2 == pytest.approx((multiplier * sensitivity) ** 2)
    assert share.alone(multiplier, sensitivity, grid) == pytest.approx(sqrt(scale**2 - 4 * grid**2) / sensitivity)


def test_without_a_grid_a_member_has_its_share_of_the_multiplier_alone() -> None:
    share = SharedNoise(100, 80, 13)
    assert share.alone(26.0) == pytest.approx(26.0 / sqrt(67))
    assert share.alone(share.for_alone(0.7)) == pytest.approx(0.7)


def test_a_grid_costs_noise_and_takes_from_what_a_member_has_alone() -> None:
    share = SharedNoise(20, 16, 3)
    assert share.member_scale(2.0, 1.0, 0.1) > share.member_scale(2.0, 1.0)
    assert share.alone(2.0, 1.0, 0.1) < share.alone(2.0)


def test_a_grid_as_coarse_as_a_members_noise_is_refused() -> None:
    with pytest.raises(InputError, match=r"finer than a member's noise, got 0\.5"):
        SharedNoise(20, 16, 3).alone(2.0, 1.0, 0.5)


def test_more_members_than_the_threshold_bring_more_noise() -> None:
    share = SharedNoise(100, 80, 13)
    assert share.spread(67) == 1
    assert share.spread(100) == pytest.approx(sqrt(100 / 67))


@pytest.mark.parametrize(("epsilon", "alone"), [(0.1, 0.99), (1.0, 11.2), (3.0, 42.0)])
def test_the_second_number_of_fifty_rounds_is_about_what_is_printed(epsilon: float, alone: float) -> None:
    share, rounds, delta = SharedNoise(100, 80, 13), 50, 1e-5
    multiplier = calibrate(Gaussian, rounds, epsilon, delta)
    own = spent({Gaussian(share.alone(multiplier)): rounds}, delta).epsilon
    assert own == pytest.approx(alone, rel=0.01)
    one_upload = spent({Gaussian(share.alone(multiplier)): 1}, delta).epsilon
    assert one_upload < 0.2 * own, "all releases together, not one"


def test_the_second_number_takes_moments_and_rounds_together() -> None:
    share, delta = SharedNoise(100, 80, 13), 1e-5
    both = {Gaussian(share.alone(40.0)): 50, Gaussian(share.alone(12.0)): 1}
    apart = [spent({event: count}, delta).epsilon for event, count in both.items()]
    assert max(apart) < spent(both, delta).epsilon < sum(apart)
