"""Where our method stands: duels with private rivals of the same situation, counted once, none of them embellished."""

import re
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.studies.compare import Cell, behind, comparison_study, standing
from fedspd.studies.compare.tables import behind_grid
from fedspd.studies.lineup import BY_RULE, OURS
from tests.studies.made import CENTRAL, entry


def duel(ours: list[float | None], theirs: list[float | None], method: str = "DP-SGD") -> list[Any]:
    return [entry(Cell("iid", "full", 1.0, OURS), ours), entry(Cell("iid", "full", 1.0, method), theirs)]


def test_a_rival_with_the_higher_mean_is_ahead_by_the_paired_difference() -> None:
    (found,) = behind(duel([0.80, 0.81, 0.85], [0.82, 0.82, 0.85]))
    gaps = np.array([2.0, 1.0, 0.0])
    assert found.cell.method == "DP-SGD"
    assert found.difference == pytest.approx(1.0)
    assert found.error == pytest.approx(gaps.std(ddof=1) / 3**0.5)
    assert found.told_apart is False, "three seeds, and a gap of less than two standard errors"


def test_a_rival_that_is_ahead_with_every_seed_by_about_as_much_is_told_apart() -> None:
    (found,) = behind(duel([0.80, 0.81, 0.85], [0.8200, 0.8301, 0.8699]))
    assert found.told_apart
    assert behind_grid(duel([0.80, 0.81, 0.85], [0.8200, 0.8301, 0.8699])).rows[0][-1] == "yes"


@given(st.lists(st.tuples(st.floats(0.5, 0.9), st.floats(0.5, 0.9)), min_size=2, max_size=6))
@settings(deadline=None)
def test_exactly_one_of_two_with_different_means_is_ahead(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = ([pair[i] for pair in pairs] for i in (0, 1))
    ahead, turned = behind(duel([*ours], [*theirs])), behind(duel([*theirs], [*ours]))
    assert len(ahead) + len(turned) <= 1
    if abs(np.mean(ours) - np.mean(theirs)) > 1e-9:
        assert len(ahead) == (np.mean(theirs) > np.mean(ours))
        assert len(turned) == (np.mean(theirs) < np.mean(ours))


def test_only_private_rivals_of_the_same_situation_and_budget_are_held_against_ours() -> None:
    best: list[float | None] = [0.9, 0.9]
    entries = [
        entry(Cell("iid", "full", 1.0, OURS), [0.8, 0.8]),
        entry(Cell("iid", "full", 3.0, "DP-SGD"), best),
        entry(Cell("iid", "20%", 1.0, "DP-SGD"), best),
        entry(Cell("dirichlet", "full", 1.0, "DP-SGD"), best),
        entry(Cell("iid", "full", inf, "FedAvg"), best),
        *(entry(Cell("iid", "full", 1.0, method), best) for method in BY_RULE),
        entry(Cell("iid", "full", 1.0, "DP-ADMM"), [0.7, 0.7]),
    ]
    assert behind(entries) == []


def test_a_rival_that_diverged_is_not_ahead() -> None:
    assert behind(duel([0.8, 0.8], [0.9, None])) == []


def told(entries: list[Any]) -> tuple[int, ...]:
    """Duels, won, lost, and those that nobody can tell."""
    found = re.match(r"Of (\d+) duels .* wins (\d+), loses (\d+) and cannot be .* in (\d+) \(", standing(entries, 4)[0])
    assert found is not None
    return tuple(map(int, found.groups()))


OWN: list[float | None] = [0.800, 0.811, 0.822, 0.833]


def above(gap: float, wiggle: float) -> list[float | None]:
    """By about so much with every seed."""
    return [known + gap + wiggle * (-1) ** place for place, known in enumerate(OWN) if known is not None]


def test_the_standing_counts_every_duel_once() -> None:
    won = duel(OWN, above(-0.1, 1e-3))
    within = duel(OWN, above(0.01, 0.03), "DP-FedAvg")[1:]
    lost = duel(OWN, above(0.1, 1e-3), "DP-ADMM")[1:]
    assert told([*won, *within, *lost]) == (3, 1, 1, 1)


def test_the_standing_does_not_call_a_duel_won_in_which_ours_diverged() -> None:
    assert told(duel([*OWN[:3], None], [0.7, 0.7, 0.7, 0.7])) == (1, 0, 0, 1)


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_comparison_without_ours_says_so_and_nothing_of_duels(seeds: int) -> None:
    """It once said that FedSPD-DP had won every duel of others."""
    rivals = [entry(Cell("iid", "20%", 1.0, method), [*[0.8, 0.81][:seeds]]) for method in ("DP-ADMM", "DP-SGD")]
    (told,) = standing(rivals, seeds)
    assert told == "FedSPD-DP is not among the methods that were compared, so there is no duel."
    study = comparison_study(rivals, [CENTRAL], seeds)
    shown = [grid.title for grid in (*study.told, *(grid for part in study.page.sections for grid in part.grids))]
    assert not [title for title in shown if OURS in title], "an empty list of defeats reads as victory"
    assert "behind" not in study.grids


def test_a_rival_is_no_duel_of_ours_where_ours_was_not_run() -> None:
    elsewhere = entry(Cell("iid", "full", 3.0, "DP-SGD"), above(-0.1, 1e-3))
    assert told([*duel(OWN, above(-0.1, 1e-3)), elsewhere]) == (1, 1, 0, 0)


def test_with_one_seed_nothing_is_said_to_be_told_apart() -> None:
    """There is no standard error of one number."""
    entries = duel([0.80], [0.83])
    (found,) = behind(entries)
    assert np.isnan(found.error)
    assert behind_grid(entries).rows[0][-1] != "no"
    assert "told apart" not in standing(entries, 1)[0]


def test_what_diverged_has_no_accuracy() -> None:
    np.testing.assert_array_equal(duel([None, 0.8], [0.5])[0].score, [nan, 80.0])


def test_weights_without_bound_have_no_accuracy_whatever_they_happened_to_get_right() -> None:
    (ours, _) = duel([0.9, 0.8], [0.5])
    far = replace(ours.results[0].summary, weights_norm=1e300)
    entry = replace(ours, results=(replace(ours.results[0], summary=far), *ours.results[1:]))
    np.testing.assert_array_equal(entry.score, [nan, 80.0])
