"""Every claim of Section V and of the remarks, held against what was measured.

A claim about random results holds if a one-sided test over seeds rejects its contrary at 5 %, after
Holm's correction over all tests of the same variant; otherwise it does not hold. A claim about
formulas is computed. What the variant has no counterpart for cannot be tested.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fedspd.algorithms import label
from fedspd.results import mean_over_seeds
from fedspd.studies.reproduce.run import Lines, Reproduced
from fedspd.studies.testing import LEVEL, holm

LAST = 10  # rounds over which a final accuracy is averaged
HOLDS, FAILS, UNTESTED = "holds", "does not hold", "cannot be tested"
RIVALS = ("DP-SGD", "DP-FedAvg", "DP-ADMM")


@dataclass(frozen=True)
class Verdict:
    """One claim under one variant."""

    variant: str
    claim: str
    source: str
    measured: str
    test: str
    p_value: float | None
    verdict: str


class Test(NamedTuple):
    """One-sided p-values of what is claimed and of its contrary."""

    p_value: float
    p_contrary: float


class Evidence:
    """The reproduced studies of one variant, by name."""

    def __init__(self, variant: str, reproduced: Sequence[Reproduced]) -> None:
        self.variant = variant
        self.studies: Mapping[str, Reproduced] = {
            f"{item.study.figure}/{item.study.name.removeprefix(variant).removeprefix('-')}".rstrip("/"): item
            for item in reproduced
            if item.study.variant == variant
        }

    def own(self, panel: str) -> Lines:
        """FedSPD-DP in a panel of Figure 5: as printed, or tuned where nothing is printed."""
        study = self.studies[panel]
        printed = self.variant == "published"
        return study.line("FedSPD-DP as printed" if printed else "FedSPD-DP")

    def of(self, claim: str, source: str, measured: str, test: str, p_value: float | None, verdict: str) -> Verdict:
        """A verdict under this variant."""
        return Verdict(self.variant, claim, source, measured, test, p_value, verdict)

    def tested(self, claim: str, source: str, measured: str, test: str, tested: "Test") -> Verdict:
        """A verdict by a test, which `_corrected` decides; with too few seeds there is none."""
        if not np.isfinite(tested.p_value):
            needs = f"{test}: needs more seeds, or results that are finite and differ"
            return self.of(claim, source, measured, needs, None, UNTESTED)
        contrary = " (significantly the other way round)" if tested.p_contrary < LEVEL else ""
        return self.of(claim, source, measured + contrary, test, tested.p_value, "")

    def computed(self, claim: str, source: str, measured: str, holds: bool) -> Verdict:
        """A verdict by formulas."""
        return self.of(claim, source, measured, "computed", None, HOLDS if holds else FAILS)


def verdicts(reproduced: Sequence[Reproduced]) -> list[Verdict]:
    """All claims that the given studies can decide, published preset first."""
    found: list[Verdict] = []
    for variant in ("published", "proved"):
        evidence = Evidence(variant, reproduced)
        rows = [
            verdict for needs, judge in CLAIMS if set(needs) <= evidence.studies.keys() for verdict in judge(evidence)
        ]
        found += _corrected(rows)
    return found


def _corrected(rows: list[Verdict]) -> list[Verdict]:
    """Decide the tested ones by Holm's procedure."""
    tested = [i for i, row in enumerate(rows) if row.p_value is not None]
    corrected = holm(np.array([rows[i].p_value for i in tested], float)).tolist()
    decided = list(rows)
    for i, p_value in zip(tested, corrected, strict=True):
        decided[i] = replace(rows[i], p_value=p_value, verdict=HOLDS if p_value < LEVEL else FAILS)
    return decided


def final_accuracy(lines: Lines) -> np.ndarray:
    """Percent, per seed, over the last rounds."""
    return 100 * lines.column("test_accuracy")[:, -LAST:].mean(axis=1)


def rounds_to_a_common_level(study: Reproduced) -> np.ndarray:
    """(seeds, curves): the first round at which the objective is as low as every curve gets with that seed."""
    objective = np.array([lines.column("objective") for lines in study.lines]).swapaxes(0, 1)
    level = objective.min(axis=2).max(axis=1)
    reached = objective <= level[:, None, None]
    return np.where(reached.any(axis=2), 1 + np.argmax(reached, axis=2), np.nan)  # nan: a curve diverged


def _trend(values: np.ndarray) -> Test:
    """Page's test that values (seeds, curves) rise from curve to curve."""
    if len(values) < 2 or not np.isfinite(values).all() or np.all(values == values[:, :1]):
        return Test(np.nan, np.nan)
    from scipy import stats  # takes a second to import

    return Test(*(float(stats.page_trend_test(sign * values).pvalue) for sign in (1, -1)))


def _above(differences: Sequence[np.ndarray]) -> Test:
    """Student's one-sided test that all of several paired differences are above zero: the weakest counts."""
    tests = [[_student(sign * values) for values in differences] for sign in (1, -1)]
    return Test(float(np.max(tests[0])), float(np.max(tests[1])))  # unlike max, keeps what is not a number


def _student(values: np.ndarray) -> float:
    if len(values) < 2:
        return np.nan
    if np.all(values == values[0]):
        return 0.0 if values[0] > 0 else 1.0
    from scipy import stats  # takes a second to import

    return float(stats.ttest_1samp(values, 0.0, alternative="greater").pvalue)  # pyright: ignore


def _mean(values: np.ndarray, digits: int = 2) -> str:
    mean = mean_over_seeds(values)
    return f"{mean.value:.{digits}f} ± {mean.error:.{digits}f}"


def _name(lines: Lines, words: str = "") -> str:
    """What a curve, or the method behind it, is called: a reconstruction says so."""
    return label(lines.curve.config.algorithm.name, words or lines.curve.label)


def _per_curve(study: Reproduced, values: np.ndarray, unit: str, digits: int = 2) -> str:
    cells = [f"{_name(lines)}: {_mean(values[:, i], digits)}" for i, lines in enumerate(study.lines)]
    return "; ".join(cells) + f" {unit}"


def _accuracies(study: Reproduced) -> np.ndarray:
    return np.array([final_accuracy(lines) for lines in study.lines]).T


def _larger_budget_is_better(evidence: Evidence) -> list[Verdict]:
    study = evidence.studies["fig2"]
    values = _accuracies(study)
    claim = "a larger total epsilon gives a higher accuracy"
    return [evidence.tested(claim, "Fig. 2, Remark 3", _per_curve(study, values, "%"), "Page", _trend(values))]


def _alfv_falls(evidence: Evidence) -> list[Verdict]:
    study = evidence.studies["fig2"]
    falls, cells = [], []
    for lines in study.lines:
        alfv = lines.column("alfv")
        fall = alfv[:, :LAST].mean(axis=1) - alfv[:, -LAST:].mean(axis=1)
        falls.append(fall)
        cells.append(f"{lines.curve.label}: {_mean(fall, 3)}")
    measured = "fall from the first to the last ten rounds: " + "; ".join(cells)
    return [evidence.tested("ALFV falls with the rounds", "Fig. 2", measured, "t, all curves", _above(falls))]


def _more_participants_are_faster(evidence: Evidence) -> list[Verdict]:
    study = evidence.studies["fig3"]
    values = np.array([lines.column("objective").mean(axis=1) for lines in study.lines]).T
    claim = "a larger K converges faster"
    measured = _per_curve(study, values, "objective, mean over the rounds", 3)
    return [evidence.tested(claim, "Fig. 3, Remark 5", measured, "Page", _trend(-values))]


def _more_local_steps_are_better(evidence: Evidence) -> list[Verdict]:
    study = evidence.studies["fig4"]
    values, rounds = _accuracies(study), rounds_to_a_common_level(study)
    measured = _per_curve(study, rounds, "rounds to the same objective", 1)
    return [
        evidence.tested("a larger Q is better", "Fig. 4", _per_curve(study, values, "%"), "Page", _trend(values)),
        evidence.tested("T_eps falls with Q", "Remark 4", measured, "Page", _trend(-rounds)),
    ]


def _beats_the_others(evidence: Evidence) -> list[Verdict]:
    rows = []
    for epsilon in ("0.1", "1"):
        study, own = evidence.studies[f"fig5/{epsilon}"], final_accuracy(evidence.own(f"fig5/{epsilon}"))
        for rival in RIVALS:
            other = final_accuracy(study.line(rival))
            measured = f"{_mean(own)} against {_mean(other)} %, difference {_mean(own - other)}"
            if evidence.variant == "published":
                measured += f" (tuned: {_mean(final_accuracy(study.line('FedSPD-DP tuned')))})"
            claim = f"FedSPD-DP beats {_name(study.line(rival))} at epsilon {epsilon} per round"
            rows.append(evidence.tested(claim, "Fig. 5", measured, "paired t", _above([own - other])))
    return rows


def _fedavg_degrades_most(evidence: Evidence) -> list[Verdict]:
    strong, weak = evidence.studies["fig5/0.1"], evidence.studies["fig5/1"]
    pairs = {rival: (weak.line(rival), strong.line(rival)) for rival in RIVALS}
    pairs["FedSPD-DP"] = (evidence.own("fig5/1"), evidence.own("fig5/0.1"))
    drops = {name: final_accuracy(high) - final_accuracy(low) for name, (high, low) in pairs.items()}
    leads = [drops["DP-FedAvg"] - drop for name, drop in drops.items() if name != "DP-FedAvg"]
    cells = [f"{_name(pairs[name][0], name)}: {_mean(drop)}" for name, drop in drops.items()]
    measured = "loss from epsilon 1 to 0.1: " + "; ".join(cells)
    claim = f"{_name(weak.line('DP-FedAvg'))} degrades most when epsilon is small"
    return [evidence.tested(claim, "Fig. 5", f"{measured} points", "paired t, all others", _above(leads))]


def _noise_is_smaller(evidence: Evidence) -> list[Verdict]:
    """In units of the step 1/(γ+ρ), which is a matter of tuning: what the noise does to a gradient."""
    cells, holds = [], True
    for epsilon in ("0.1", "1"):
        panel = f"fig5/{epsilon}"
        own, other = (
            _relative_noise(lines) for lines in (evidence.own(panel), evidence.studies[panel].line("DP-ADMM"))
        )
        cells.append(f"epsilon {epsilon}: {own:.4g} against {other:.4g}")
        holds &= own < other
    claim = "FedSPD-DP needs less noise than DP-ADMM at the same epsilon per round"
    measured = "; ".join(cells) + " (deviation over step size, mean over rounds)"
    return [evidence.computed(claim, "Section V-D", measured, holds)]


def _relative_noise(lines: Lines) -> float:
    penalties = np.array([result.summary["penalty"] for result in lines.results])
    return float(np.mean(lines.column("noise_scale") * (lines.column("inverse_step") + penalties[:, None])))


def _total_loss(evidence: Evidence) -> list[Verdict]:
    full, partial = evidence.studies["fig6/fcp"], evidence.studies["fig6/pcp"]
    without, replaced = "FedSPD-DP, without replacement", "FedSPD-DP, with replacement"
    ends = {
        (name, label): float(_loss(study.line(label))[-1])
        for name, study in (("FCP", full), ("PCP", partial))
        for label in [lines.curve.label for lines in study.lines]
    }
    below = all(np.all(_loss(study.line(without)) < _loss(study.line("DP-ADMM"))) for study in (full, partial))
    told = "; ".join(f"{name} {ends[name, without]:.4g} against {ends[name, 'DP-ADMM']:.4g}" for name in ("FCP", "PCP"))
    saved = f"{ends['PCP', without]:.4g} against {ends['FCP', without]:.4g}"
    lower = bool(np.all(_loss(partial.line(without)) < _loss(full.line(without))))
    rows = [
        evidence.computed("the total loss of FedSPD-DP is below DP-ADMM's", "Fig. 6", f"{told} in the end", below),
        evidence.computed("PCP costs less than FCP", "Fig. 6, Remark 5", f"{saved} in the end", lower),
    ]
    claim = "sampling with replacement costs slightly less than without"
    if ("FCP", replaced) not in ends:
        told = "there is no proof for sampling with replacement, where a record may be drawn several times"
        return [*rows, evidence.of(claim, "Fig. 6, Remark 2", told, "none", None, UNTESTED)]
    told = "; ".join(f"{name} {ends[name, replaced]:.4g} against {ends[name, without]:.4g}" for name in ("FCP", "PCP"))
    less = all(np.all(_loss(study.line(replaced)) < _loss(study.line(without))) for study in (full, partial))
    return [*rows, evidence.computed(claim, "Fig. 6, Remark 2", f"{told} after all rounds, by Theorem 1", less)]


def _loss(lines: Lines) -> np.ndarray:
    assert lines.loss is not None
    return lines.loss


def _penalty_condition(evidence: Evidence) -> list[Verdict]:
    claim, cells, holds = "rho >= sqrt(gamma) holds", [], True
    for lines in evidence.studies["fig2"].lines:
        rho = lines.results[0].summary["penalty"]
        roots = np.sqrt(lines.results[0].history["inverse_step"])
        met = int(np.sum(roots <= rho))
        cells.append(f"{lines.curve.label}: {rho:.3g} against {roots[0]:.3g} to {roots[-1]:.3g}, {met} of {len(roots)}")
        holds &= met == len(roots)
    return [evidence.computed(claim, "Theorem 2", "; ".join(cells) + " rounds", holds)]


CLAIMS: tuple[tuple[tuple[str, ...], Callable[[Evidence], list[Verdict]]], ...] = (
    (("fig2",), _larger_budget_is_better),
    (("fig2",), _alfv_falls),
    (("fig3",), _more_participants_are_faster),
    (("fig4",), _more_local_steps_are_better),
    (("fig5/0.1", "fig5/1"), _beats_the_others),
    (("fig5/0.1", "fig5/1"), _fedavg_degrades_most),
    (("fig5/0.1", "fig5/1"), _noise_is_smaller),
    (("fig6/fcp", "fig6/pcp"), _total_loss),
    (("fig2",), _penalty_condition),
)
"""Which studies a claim needs, and how it is judged."""
