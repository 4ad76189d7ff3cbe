"""The verdict says what the numbers say: nothing holds that they deny or leave open, nothing fails that they show."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedspd.results import History
from fedspd.studies.jobs import Result
from fedspd.studies.reproduce import Lines, Reproduced, Verdict, verdicts
from fedspd.studies.reproduce.verdict import final_accuracy, rounds_to_a_common_level
from tests.studies.made import LAST, ROUNDS, SEEDS, paper, result, wiggled

RECONSTRUCTED = "DP-FedAvg (reconstruction)"
TESTED = {
    "a larger total epsilon gives a higher accuracy",
    "ALFV falls with the rounds",
    "a larger K converges faster",
    "a larger Q is better",
    "T_eps falls with Q",
    *(
        f"FedSPD-DP beats {rival} at epsilon {epsilon} per round"
        for rival in ("DP-SGD", RECONSTRUCTED, "DP-ADMM")
        for epsilon in ("0.1", "1")
    ),
    f"{RECONSTRUCTED} degrades most when epsilon is small",
}
REPLACED = "sampling with replacement costs slightly less than without"
COMPUTED = {
    "the total loss of FedSPD-DP is below DP-ADMM's",
    "PCP costs less than FCP",
    REPLACED,
    "rho >= sqrt(gamma) holds",
    "FedSPD-DP needs less noise than DP-ADMM at the same epsilon per round",
}
UNTESTED = ("proved", REPLACED)


def by_claim(found: list[Verdict]) -> dict[tuple[str, str], str]:
    assert len({(v.variant, v.claim) for v in found}) == len(found), "a claim is judged twice"
    return {(v.variant, v.claim): v.verdict for v in found}


def the(found: list[Verdict], variant: str, claim: str) -> Verdict:
    return next(v for v in found if (v.variant, v.claim) == (variant, claim))


def edited(reproduced: list[Reproduced], change: Callable[[Reproduced, int, int], dict[str, Any]]) -> list[Reproduced]:
    """With some columns of the runs replaced, by study, place of the curve and seed."""

    def run(item: Reproduced, place: int, seed: int, old: Result) -> Result:
        return Result(old.summary, History({**old.history.columns, **change(item, place, seed)}))

    return [
        replace(
            item,
            lines=tuple(
                replace(lines, results=tuple(run(item, place, seed, old) for seed, old in enumerate(lines.results)))
                for place, lines in enumerate(item.lines)
            ),
        )
        for item in reproduced
    ]


@pytest.fixture(scope="module")
def claimed() -> list[Verdict]:
    return verdicts(paper(1))


def test_every_claim_of_the_list_is_judged_in_both_variants_and_no_other(claimed: list[Verdict]) -> None:
    assert by_claim(claimed).keys() == {
        (variant, claim) for variant in ("published", "proved") for claim in TESTED | COMPUTED
    }
    assert [v.variant for v in claimed] == sorted((v.variant for v in claimed), reverse=True), "published first"
    assert all(v.source.startswith(("Fig. ", "Remark ", "Theorem ", "Section ")) for v in claimed)


def test_what_the_numbers_show_holds(claimed: list[Verdict]) -> None:
    for key, verdict in by_claim(claimed).items():
        assert verdict == ("cannot be tested" if key == UNTESTED else "holds"), key


@pytest.mark.parametrize("way", [-1, 0])
def test_what_the_numbers_deny_or_leave_open_does_not_hold(way: int) -> None:
    for key, verdict in by_claim(verdicts(paper(way))).items():
        assert verdict == ("cannot be tested" if key == UNTESTED else "does not hold"), key


def test_only_what_the_numbers_turn_round_is_said_to_be_the_other_way_round() -> None:
    said = {
        way: {v.claim for v in verdicts(paper(way)) if "other way round" in v.measured and v.claim in TESTED}
        for way in (1, 0, -1)
    }
    assert said == {1: set(), 0: set(), -1: TESTED}


def test_with_one_seed_only_formulas_are_judged() -> None:
    found = verdicts(paper(1, seeds=1))
    for (variant, claim), verdict in by_claim(found).items():
        untested = claim in TESTED or (variant, claim) == UNTESTED
        assert verdict == ("cannot be tested" if untested else "holds"), claim
    assert all(v.p_value is None for v in found)


def test_tested_claims_carry_a_p_value_and_computed_ones_none(claimed: list[Verdict]) -> None:
    for v in claimed:
        assert (v.p_value is not None) == (v.claim in TESTED), v.claim
        assert (v.test == "computed") == (v.claim in COMPUTED and (v.variant, v.claim) != UNTESTED), v.claim


@pytest.mark.parametrize(
    ("figure", "claims"),
    [("fig2", 3), ("fig3", 1), ("fig4", 2), ("fig5", 8), ("fig6", 3)],
)
def test_a_figure_alone_decides_its_own_claims(figure: str, claims: int) -> None:
    found = verdicts(paper(1, figure))
    assert len(found) == 2 * claims
    assert set(by_claim(found).values()) <= {"holds", "cannot be tested"}


def test_half_of_a_figure_that_needs_both_panels_decides_nothing() -> None:
    assert verdicts([item for item in paper(1, "fig5") if item.study.name.endswith("0.1")]) == []


def holm(p_values: list[float]) -> list[float]:
    """By the definition: the largest of what is left when each smaller one is multiplied by its rank from above."""
    return [
        max(min(1.0, sum(other >= smaller for other in p_values) * smaller) for smaller in p_values if smaller <= p)
        for p in p_values
    ]


def student(values: np.ndarray) -> float:
    """One-sided, by the definition."""
    n = len(values)
    deviation = np.sqrt(((values - values.mean()) ** 2).sum() / (n - 1))
    return float(stats.t.sf(values.mean() / (deviation / np.sqrt(n)), n - 1))


def noisy(seed: int, strength: float) -> list[Reproduced]:
    """Figures 2 and 4 as published, with effects of a size between nothing and plenty."""
    rng = np.random.default_rng(seed)
    panels = [item for item in paper(1, "fig2") + paper(1, "fig4") if item.study.variant == "published"]

    def change(item: Reproduced, place: int, run: int) -> dict[str, np.ndarray]:
        level = strength * place + rng.standard_normal()
        falling = np.exp(-0.1 * (1 + 0.2 * strength * place + 0.1 * rng.random()) * np.arange(ROUNDS))
        return {
            "test_accuracy": np.full(ROUNDS, 0.7 + 0.01 * level),
            "alfv": 10 + rng.standard_normal() - (strength + 0.5 * rng.standard_normal()) * np.arange(ROUNDS) / ROUNDS,
            "objective": falling,
        }

    return edited(panels, change)


def accuracies(item: Reproduced) -> np.ndarray:
    """(seeds, curves), by hand."""
    return np.array([[np.mean(run.history["test_accuracy"][-LAST:]) for run in line.results] for line in item.lines]).T


@given(seed=st.integers(0, 2**32), strength=st.floats(0.1, 1.5))
@settings(deadline=None, max_examples=20)
def test_p_values_are_those_of_the_named_tests_corrected_by_holm(seed: int, strength: float) -> None:
    budgets, steps = panels = noisy(seed, strength)
    falls = [
        np.array([run.history["alfv"][:LAST].mean() - run.history["alfv"][-LAST:].mean() for run in line.results])
        for line in budgets.lines
    ]
    reached = []
    for run in range(SEEDS):
        curves = [line.results[run].history["objective"] for line in steps.lines]
        level = max(curve.min() for curve in curves)
        reached.append([-next(t for t, value in enumerate(curve, 1) if value <= level) for curve in curves])
    plain = {
        "a larger total epsilon gives a higher accuracy": stats.page_trend_test(accuracies(budgets)).pvalue,
        "ALFV falls with the rounds": max(student(fall) for fall in falls),
        "a larger Q is better": stats.page_trend_test(accuracies(steps)).pvalue,
        "T_eps falls with Q": stats.page_trend_test(np.array(reached)).pvalue,
    }
    corrected = dict(zip(plain, holm([float(p) for p in plain.values()]), strict=True))
    found = verdicts(panels)
    for claim, p_value in corrected.items():
        judged = the(found, "published", claim)
        assert judged.p_value == pytest.approx(p_value, rel=1e-9)
        assert judged.verdict == ("holds" if p_value < 0.05 else "does not hold")


def test_a_claim_that_would_hold_alone_does_not_hold_among_many_that_are_as_weak() -> None:
    """Three seeds in which FedSPD-DP is ahead by 1, 1.2 and 2 points: p = 0.022 alone, six times that together."""

    def change(item: Reproduced, place: int, seed: int) -> dict[str, np.ndarray]:
        own = item.lines[place].curve.label.startswith("FedSPD-DP")
        return {"test_accuracy": np.full(ROUNDS, 0.7 + (0.01 * (1.0, 1.2, 2.0)[seed] if own else 0.0))}

    alone = student(np.array([1.0, 1.2, 2.0]))
    assert 0.02 < alone < 0.025
    found = verdicts(edited(paper(1, "fig5", seeds=3), change))
    beats = [v for v in found if "beats" in v.claim]
    assert len(beats) == 12
    assert all(v.p_value == pytest.approx(7 * alone) and v.verdict == "does not hold" for v in beats)


def test_the_variants_are_corrected_apart() -> None:
    published = [item for item in paper(1) if item.study.variant == "published"]
    together = {v.claim: v.p_value for v in verdicts(paper(1)) if v.variant == "published"}
    assert {v.claim: v.p_value for v in verdicts(published)} == together


def test_as_published_the_curve_as_printed_is_judged_and_the_tuned_one_only_told() -> None:
    def change(item: Reproduced, place: int, seed: int) -> dict[str, np.ndarray]:
        label = item.lines[place].curve.label
        level = 0.9 if label == "FedSPD-DP tuned" else 0.5 if label == "FedSPD-DP as printed" else 0.7
        return {"test_accuracy": np.full(ROUNDS, level + 0.01 * wiggled(place, seed))}

    found = [v for v in verdicts(edited(paper(1, "fig5"), change)) if "beats" in v.claim and v.variant == "published"]
    assert {v.verdict for v in found} == {"does not hold"}
    assert all("(tuned: 90.15 " in v.measured for v in found)


def test_a_single_round_in_which_rho_is_too_small_refutes_the_condition() -> None:
    def change(item: Reproduced, place: int, seed: int) -> dict[str, np.ndarray]:
        last = 400.1 if place == 3 else 399.9
        return {"inverse_step": np.linspace(1.0, last, ROUNDS)}

    found = the(verdicts(edited(paper(1, "fig2"), change)), "published", "rho >= sqrt(gamma) holds")
    assert found.verdict == "does not hold"
    assert f"{ROUNDS - 1} of {ROUNDS} rounds" in found.measured


def test_one_curve_whose_alfv_rises_is_enough_to_refute_that_it_falls() -> None:
    def change(item: Reproduced, place: int, seed: int) -> dict[str, np.ndarray]:
        slope = (1 if place == 1 else -1) * (1 + 0.01 * seed)
        return {"alfv": slope * np.arange(float(ROUNDS))}

    found = verdicts(edited(paper(1, "fig2"), change))
    assert the(found, "proved", "ALFV falls with the rounds").verdict == "does not hold"


def test_one_crossing_of_the_total_losses_is_enough_to_refute_that_one_is_below_the_other() -> None:
    reproduced = paper(1, "fig6")

    def crossed(lines: Lines) -> Lines:
        assert lines.loss is not None
        return replace(lines, loss=np.concatenate([[9.0], lines.loss[1:]])) if "without" in lines.curve.label else lines

    changed = [
        replace(item, lines=tuple(map(crossed, item.lines))) if item.study.name == "published-pcp" else item
        for item in reproduced
    ]
    judged = by_claim(verdicts(changed))
    assert judged["published", "the total loss of FedSPD-DP is below DP-ADMM's"] == "does not hold"
    assert judged["published", "PCP costs less than FCP"] == "does not hold"
    assert judged["proved", "the total loss of FedSPD-DP is below DP-ADMM's"] == "holds"


def diverged(figure: str, place: int, *columns: str) -> list[Verdict]:
    """Judged where one run of one curve ended in numbers that are not finite."""

    def change(item: Reproduced, at: int, seed: int) -> dict[str, np.ndarray]:
        return {name: np.full(ROUNDS, np.nan) for name in columns} if (at, seed) == (place, 1) else {}

    return verdicts(edited(paper(1, figure), change))


@pytest.mark.parametrize("figure", ["fig2", "fig3", "fig4"])
def test_a_curve_that_diverged_does_not_break_the_verdict_and_shows_no_trend(figure: str) -> None:
    found = diverged(figure, 2, "test_accuracy", "alfv", "objective")
    assert all(v.verdict in {"does not hold", "cannot be tested"} for v in found if v.claim in TESTED)


@pytest.mark.parametrize("place", range(4))
def test_alfv_does_not_fall_where_one_curve_diverged_whichever_it_is(place: int) -> None:
    """What is not a number compares as false, so that `max` would lose it unless it stands first."""
    found = diverged("fig2", place, "alfv")
    assert the(found, "published", "ALFV falls with the rounds").verdict != "holds"


@pytest.mark.parametrize("place", range(4))
def test_no_method_degrades_most_where_one_diverged_whichever_it_is(place: int) -> None:
    found = diverged("fig5", place, "test_accuracy")
    assert the(found, "proved", f"{RECONSTRUCTED} degrades most when epsilon is small").verdict != "holds"


def test_the_final_accuracy_is_the_mean_of_the_last_ten_rounds_in_percent() -> None:
    curve = paper(1, "fig2")[0].lines[0].curve
    accuracy = np.arange(25.0) / 100
    assert final_accuracy(Lines(curve, {}, (result({}, test_accuracy=accuracy),))) == pytest.approx(19.5)


def test_the_common_level_is_one_that_every_curve_reaches_with_that_seed() -> None:
    item = paper(1, "fig4")[0]
    curves = [[5.0, 4.0, 3.0, 2.0], [5.0, 3.0, 3.5, 3.2], [2.9, 2.8, 2.7, 2.6], [9.0, 9.0, 3.0, 1.0]]
    lines = tuple(
        replace(line, results=(result({}, objective=np.array(values)), result({}, objective=np.array(values[::-1]))))
        for line, values in zip(item.lines, curves, strict=True)
    )
    assert rounds_to_a_common_level(replace(item, lines=lines)).tolist() == [[3, 2, 1, 3], [1, 3, 1, 1]]
