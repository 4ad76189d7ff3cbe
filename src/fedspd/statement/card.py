"""A model card: what a model is for, what it was trained on, how well it does and for whom, and its limits.

It adds to the statement what is about the model and not about privacy (Mitchell et al. 2019). Measures come from the
summary, and by subgroup from private evaluations where there are some.
"""

from math import isfinite
from typing import Any

from fedspd.report.statement.audited import REFUTED
from fedspd.results import RunRecord, Statement
from fedspd.results.counted import counted
from fedspd.results.evaluation import Evaluation, Measure

MEASURES = {
    "test_accuracy": "accuracy",
    "test_balanced_accuracy": "balanced accuracy",
    "majority_accuracy": "accuracy of the most frequent class",
    "test_loss": "mean loss",
    "test_explained": "share explained",
    "test_mae": "mean absolute error",
    "trivial_mae": "mean absolute error of the mean",
    "test_deviance": "mean deviance",
    "trivial_deviance": "mean deviance of the mean",
}

CLAIM = ("standing", "epsilon", "delta", "unit", "neighbors")
NO_INTERVAL = {"group": None, "low": None, "high": None}


def card_of(record: RunRecord, statement: Statement) -> dict[str, Any]:
    """The card of the model in a run's folder, as values JSON can hold."""
    summary, declared = record.summary, statement["declared"]
    measures = [*_measured(record), *_evaluated(record)]
    return {
        "format": "fedspd-card",
        "version": 1,
        "model": {
            "method": summary.title,
            "weights": summary.dimension,
            "finished": statement["run"]["finished"],
            "diverged": summary.diverged,
        },
        "intended_use": declared["intended_use"],
        "data": {
            "told": declared["data"],
            "region": declared["region"],
            "clients": summary.clients,
            "records": summary.records,
            "schema": statement["digests"]["schema"],
        },
        "measures": measures,
        "limits": [*([declared["limits"]] if declared["limits"] else []), *_limits(record, statement, measures)],
        "privacy": {name: statement["guarantee"][name] for name in CLAIM},
        "trust": statement["trust"],
    }


def _measured(record: RunRecord) -> list[dict[str, Any]]:
    """On the test set, without noise; of a run that diverged nothing, for it would be read as if it meant something."""
    found = []
    if record.summary.diverged:
        return found
    for name, words in MEASURES.items():
        value = record.summary[name]
        if value is not None and isfinite(value):
            found.append({**NO_INTERVAL, "what": words, "value": value, "on": "the test set"})
    return found


def _evaluated(record: RunRecord) -> list[dict[str, Any]]:
    """On private records that were held out: with intervals, by subgroup where that was asked for."""
    return [
        {
            "what": _what(last, one),
            "group": None if one.group is None else f"{last.subgroup} = {one.group}",
            "value": one.value,
            "low": one.low,
            "high": one.high,
            "on": f"{counted(last.records, f'held-out {last.unit}')}, with noise",
        }
        for last in record.evaluations[-1:]
        for one in last.measures
        if one.at is None and one.value is not None
    ]


def _what(evaluation: Evaluation, one: Measure) -> str:
    """A measure with its unit, where its name alone would be taken for that of the target."""
    if one.name == "records":
        return f"{evaluation.unit}s"
    return f"{one.name}, in parts of the range" if one.name.endswith("residual") else one.name


def _limits(record: RunRecord, statement: Statement, measures: list[dict[str, Any]]) -> list[str]:
    summary, claim = record.summary, statement["guarantee"]
    found = [
        "Its weights carry noise: two runs on the same records give different models.",
        f"What it predicts about somebody is not protected. Which {claim['unit']}s it was trained on is.",
        "It was trained on these clients' records. Nothing is known of how it does elsewhere.",
    ]
    if not any(one["group"] for one in measures):
        found.append("How well it does by subgroup was not measured.")
    if statement["audit"] is not None and statement["audit"]["refuted"]:
        found.insert(0, REFUTED)
    if summary.diverged:
        found.insert(0, "The run diverged: the model is of no use, and nothing is said of how well it does.")
    return found
