"""Figures of a comparison: accuracy against epsilon, and against bytes."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from fedspd.report.page import Chart, banded, measured
from fedspd.studies.compare.run import Central, Entry
from fedspd.studies.compare.tables import place_name, places_of
from fedspd.studies.compare.trust import relied_on
from fedspd.studies.lineup import PRIVATE, TRUST, company, name_of

AT_BYTES = 1.0  # the budget at which accuracy is drawn against bytes, or the nearest one there is


def figures(entries: Sequence[Entry], centrals: Sequence[Central]) -> dict[str, tuple[Chart, ...]]:
    """By file name, for each data two of the first company, and two more of each other one."""
    found = {}
    for central in centrals:
        here = [entry for entry in entries if entry.cell.ground == central.ground]
        for place, (name, group) in enumerate(groups(here).items()):
            suffix = central.ground.name + ("" if place == 0 else "-" + name.lower().replace(" ", "-"))
            found[f"accuracy-epsilon-{suffix}"] = epsilon_charts(group, central, name)
            found[f"accuracy-bytes-{suffix}"] = bytes_charts(group, central, name)
        found[f"accuracy-trust-{central.ground.name}"] = trust_charts(here, central)
    return {name: charts for name, charts in found.items() if charts}  # without private methods there are none


def groups(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Our method with each company of proved ones that is there; all others are in the table only.

    Without a name where there is one company only.
    """
    entries = [entry for entry in entries if entry.cell.method not in TRUST]
    ours = [entry for entry in entries if name_of(entry.cell.method) == "fedspd"]
    others = [entry for entry in entries if entry.cell.method in PRIVATE and entry not in ours]
    found = list(dict.fromkeys(company(entry.cell.method) for entry in others))
    if len(found) < 2:
        return {"": ours + others}
    return {name: ours + [entry for entry in others if company(entry.cell.method) == name] for name in found}


def trust_charts(entries: Sequence[Entry], central: Central, name: str = "") -> tuple[Chart, ...]:
    """Our method under three kinds of trust, with what two of them rest on."""
    trusting = [entry for entry in entries if entry.cell.method in TRUST]
    return tuple(replace(chart, note=relied_on(trusting)) for chart in epsilon_charts(trusting, central, name))


def epsilon_charts(entries: Sequence[Entry], central: Central, name: str = "") -> tuple[Chart, ...]:
    """One chart per situation, one line per method."""
    charts = []
    for place in places_of(entries):
        here = [e for e in entries if e.cell.place == place and e.cell.epsilon < inf]
        series = []
        for method in dict.fromkeys(e.cell.method for e in here):
            own = sorted((e for e in here if e.cell.method == method), key=lambda e: e.cell.epsilon)
            reached = [measured(e.score, 2) for e in own]
            series.append(banded(own[0].cell.label, [e.cell.epsilon for e in own], reached))
        title = place_name(*place) + (f": {name}" if name else "")
        references = (("central, no privacy", central.score),)
        y_label = f"test {central.measure}, %"
        charts.append(Chart(title, "total epsilon", y_label, tuple(series), references, log_x=True, markers=True))
    return tuple(charts)


def bytes_charts(entries: Sequence[Entry], central: Central, name: str = "") -> tuple[Chart, ...]:
    """Accuracy after every round against what was uploaded until then, at one budget."""
    budgets = sorted({e.cell.epsilon for e in entries if e.cell.epsilon < inf})
    if not budgets:
        return ()
    budget = min(budgets, key=lambda epsilon: abs(epsilon - AT_BYTES))
    charts = []
    for place in places_of(entries):
        here = [e for e in entries if e.cell.situation == (*place, budget)]
        series = tuple(
            banded(e.cell.label, _megabytes(e), [measured(value, 2) for value in _accuracy_by_round(e)]) for e in here
        )
        title = f"{place_name(*place)}, epsilon {budget:g}" + (f": {name}" if name else "")
        charts.append(Chart(title, "MB uploaded by all clients", f"test {central.measure}, %", series, markers=True))
    return tuple(charts)


def _accuracy_by_round(entry: Entry) -> np.ndarray:
    """Percent, (rounds, seeds)."""
    return 100 * np.array([result.history.score for result in entry.results]).T


def _megabytes(entry: Entry) -> list[float]:
    summary, history = entry.results[0].summary, entry.results[0].history
    a_reply = summary.bytes_uploaded / summary.uploads
    return (np.cumsum(history["participants"]) * a_reply / 1e6).tolist()
