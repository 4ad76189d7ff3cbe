"""What is left of the benchmark: a tidy table of all cells, tables and verdicts in Markdown, two figures."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

import numpy as np

from benchmarks.defaults.cells import BUILT_IN, CLIENTS, DELTA, EPSILONS, Cell, records_of
from benchmarks.defaults.checks import Gap, Result, Verdict, above_trivial, ahead_of_tuned, gap, rises
from benchmarks.defaults.play import TUNING
from benchmarks.defaults.rows import RULE, TUNED, Row
from fedspd.report import Chart, Grid, Series
from fedspd.report.page import Measured, measured
from fedspd.report.text import grid_markdown
from fedspd.target import Classes, Number

LABELS = {"iid": "IID", "dirichlet": "Dirichlet 0.1", "label-shards": "label shards"}
DIGITS = 2
FIGURES = {
    "defaults-iid": (True, "dealt at random, everybody in every round"),
    "defaults-skewed": (False, "dealt by label, one client in five"),
}
"""By file name: whether records are dealt at random, and what is told of it."""


@dataclass(frozen=True)
class Variant:
    """The results with one set of settings beside the preset."""

    settings: str
    results: Mapping[Cell, Result]
    verdicts: Sequence[Verdict]

    @property
    def title(self) -> str:
        """What was set."""
        return f"with `{self.settings}`" if self.settings else "nothing else set"


COLUMNS = (
    "settings", "data", "clients", "deal", "participants", "uploads at most", "epsilon", "seeds", "rounds",
    "score", "s.e.", "trivial", "tuned", "ahead of tuned", "s.e. of that", "tuned point",
    "least gain over a smaller epsilon", "s.e. of the gain", "scores", "tuned scores",
)  # fmt: skip


def cells_csv(variants: Iterable[Variant]) -> str:
    """A line for every cell: its mean, what it is held against, by how much it differs, and the score of every seed."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for variant in variants:
        lowest = _lowest(rises(variant.results))
        for cell, one in variant.results.items():
            mean, gain = gap(cell, one.scores, 0.0), lowest.get(cell)
            ahead = gap(cell, one.scores, one.tuned) if one.tuned else None
            writer.writerow([
                variant.settings, cell.data, cell.clients, cell.deal, cell.participants, cell.uploads or "",
                f"{cell.epsilon:g}", len(one.scores), f"{one.rounds:g}", *_pair(mean), f"{one.trivial:.3f}",
                f"{np.mean([*one.tuned.values()]):.3f}" if one.tuned else "", *_pair(ahead), one.point, *_pair(gain),
                _by_seed(one.scores), _by_seed(one.tuned),
            ])  # fmt: skip
    return text.getvalue()


def rows_told(table: str, program: str) -> Iterator[Row]:
    """The runs behind every line of such a table, so that later ones can be added to them."""
    for line in csv.DictReader(StringIO(table)):
        cell = line["data"], int(line["clients"]), line["deal"], int(line["participants"]), float(line["epsilon"])
        for kind, scores, point in ((RULE, "scores", ""), (TUNED, "tuned scores", line["tuned point"])):
            for told in line[scores].split():
                seed, _, score = told.partition(":")
                yield Row(
                    kind, *cell, int(line["uploads at most"] or 0), int(seed), float(score), float(line["trivial"]),
                    round(float(line["rounds"])), point, line["settings"], program,
                )  # fmt: skip


def _by_seed(scores: Mapping[int, float]) -> str:
    return " ".join(f"{seed}:{score:.4f}" for seed, score in sorted(scores.items()))


def _lowest(gaps: Iterable[Gap]) -> dict[Cell, Gap]:
    """For each cell the comparison with a smaller budget that it does worst in."""
    found: dict[Cell, Gap] = {}
    for one in gaps:
        if one.cell not in found or one.value < found[one.cell].value:
            found[one.cell] = one
    return found


def _pair(one: Gap | None) -> tuple[str, str]:
    return ("", "") if one is None else (f"{one.value:.3f}", f"{one.error:.3f}")


def markdown(variants: Sequence[Variant], missing: int) -> str:
    """Verdicts, figures and tables for docs/results.md."""
    first = variants[0]
    seeds = {len(one.scores) for one in first.results.values()}
    held = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else f"{max(seeds)}"
    left = f"; {missing:,} runs are missing" if missing else ""
    parts = [f"{len(first.results)} cells, {held} seeds each, delta {DELTA:g}{left}."]
    for variant in variants:
        parts += [f"**Verdict**, {variant.title}:", "\n".join(f"- {one.line}" for one in variant.verdicts)]
    parts += [
        *(f"![Score against epsilon: {words}](figures/{name}.png)" for name, (_, words) in FIGURES.items()),
        f"The tuned grid: {TUNING}.",
        grid_markdown(by_data(first.results)),
        "Mean scores and standard errors in points, IID, everybody in every round; accuracy of classes, R² of a "
        "number, D² of a count:",
        grid_markdown(by_clients(first.results)),
    ]
    return "\n\n".join(part.strip() for part in parts)


def by_data(results: Mapping[Cell, Result]) -> Grid:
    """A line for each data set: how many cells it has, and in how many something is short."""
    falls, below, behind = rises(results), above_trivial(results), ahead_of_tuned(results)

    def of(data: str, gaps: Sequence[Gap]) -> list[Gap]:
        return [one for one in gaps if one.cell.data == data]

    return Grid(
        "", ("data", "records", "cells", "pairs that fall", "of", "cells below trivial", "tuned cells",
             "median behind tuned", "most behind tuned"),
        tuple(
            (
                data, f"{len(records_of(data).train):,}", len(of(data, below)), _shorts(of(data, falls)),
                len(of(data, falls)), _shorts(of(data, below)), len(of(data, behind)),
                _behind(of(data, behind), np.median), _behind(of(data, behind), np.min),
            )
            for data in _names(results)
        ),
    )  # fmt: skip


def _shorts(gaps: Sequence[Gap]) -> int:
    return sum(one.short for one in gaps)


def _behind(gaps: Sequence[Gap], which: Callable[[list[float]], float]) -> Measured | None:
    found = [one.value for one in gaps if np.isfinite(one.value)]
    return Measured(-float(which(found)), None, DIGITS) if found else None


def by_clients(results: Mapping[Cell, Result]) -> Grid:
    """Scores of every data set and number of clients by budget, IID with everybody."""
    return Grid(
        "", ("data", "clients", "trivial", *(f"ε {epsilon:g}" for epsilon in EPSILONS)),
        tuple(
            (data, clients, Measured(line[0].trivial, None, 2), *(_mean(_at(line, epsilon)) for epsilon in EPSILONS))
            for data in _names(results)
            for clients in CLIENTS
            if (line := _line(results, data, clients, iid=True))
        ),
    )  # fmt: skip


def charts(results: Mapping[Cell, Result], iid: bool) -> list[Chart]:
    """Score against epsilon, a panel for each data set, a line for each number of clients.

    Args:
        results: by cell.
        iid: dealt at random, with everybody in every round; else skewed, with one client in five.
    """
    shown = [data for data in BUILT_IN if any(_line(results, data, clients, iid) for clients in CLIENTS)]
    return [
        Chart(
            f"{data} ({LABELS[line[0].cell.deal]})", "epsilon", _unit(data),
            tuple(_series(clients, _line(results, data, clients, iid)) for clients in CLIENTS if iid or clients > 2),
            references=(("trivial", line[0].trivial),), log_x=True, markers=True,
        )
        for data in shown
        if (line := next(filter(None, (_line(results, data, clients, iid) for clients in CLIENTS))))
    ]  # fmt: skip


def _series(clients: int, line: Sequence[Result]) -> Series:
    """Means with a band of two standard errors; gaps where the data set is too small for so many."""
    means = [_mean(_at(line, epsilon)) for epsilon in EPSILONS]
    edges = [
        tuple(None if one is None else one.value + side * 2 * (one.error or 0.0) for one in means) for side in (-1, 1)
    ]
    return Series(f"{clients} clients", EPSILONS, tuple(one and one.value for one in means), *edges)


def _line(results: Mapping[Cell, Result], data: str, clients: int, iid: bool) -> list[Result]:
    """The budgets of one federation."""
    return [
        one
        for cell, one in results.items()
        if (cell.data, cell.clients, cell.uploads) == (data, clients, 0) and (cell.deal == "iid") == cell.full == iid
    ]


def _at(line: Sequence[Result], epsilon: float) -> Result | None:
    return next((one for one in line if one.cell.epsilon == epsilon), None)


def _mean(one: Result | None) -> Measured | None:
    return None if one is None or one.diverged else measured(np.array([*one.scores.values()]), DIGITS)


def _names(results: Mapping[Cell, Result]) -> list[str]:
    return list(dict.fromkeys(cell.data for cell in results))


def _unit(data: str) -> str:
    target = records_of(data).train.predicted
    return "accuracy, %" if isinstance(target, Classes) else "R², %" if isinstance(target, Number) else "D², %"
