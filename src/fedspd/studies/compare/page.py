"""The page of a comparison: the leaderboard, accuracy against epsilon, accuracy against bytes."""

from collections.abc import Sequence
from math import inf

import numpy as np
import tomli_w

from fedspd.algorithms import METHODS
from fedspd.report.page import Cell, Chart, Grid, Measured, Page, Section, banded, measured
from fedspd.results import environment
from fedspd.studies.compare.plan import DELTA
from fedspd.studies.compare.run import Central, Entry
from fedspd.studies.compare.standing import behind, has_ours, standing
from fedspd.studies.folder import StudyReport
from fedspd.studies.jobs import on_own_records
from fedspd.studies.lineup import BY_RULE, CLAIMED, OURS, PRIVATE, company, name_of
from fedspd.studies.tuning import PROTOCOL

NAMES = {"iid": "IID", "dirichlet": "Dirichlet 0.1", "occupation": "by occupation", "own": "clients of their own"}
SHARES = {"full": "full participation", "20%": "20 % participation"}
AT_BYTES = 1.0  # the budget at which accuracy is drawn against bytes, or the nearest one there is
STATEMENT = (
    "Every method marked proved is (epsilon, {delta:g})-differentially private end to end: unit one record of a "
    "client, replace-one neighbors, noise on every release, scaling charged, against anyone who sees every upload and "
    "every model, the server included. The budget is the total over all rounds. Rows without an epsilon have no "
    "privacy."
)
PURE = (
    "Conversion: {methods} release with spherical Laplace noise, so that each round is purely private. Rounds and the "
    "Gaussian release of moments are composed to (epsilon, {delta:g}) by a bound on the losses of such noise in as "
    "many dimensions as there are weights, or by their epsilons alone where that is better (docs/accounting.md)."
)
CLAIMS = (
    "Methods marked as published have the epsilon that their authors claim, which is not proved, on data whose scaling "
    "is not charged: their rows are not comparable, and are left out of every count."
)


def comparison_study(entries: Sequence[Entry], central: Central, seeds: int) -> StudyReport:
    """Leaderboard, where our method is behind, and the two figures."""
    return StudyReport(
        page=comparison_page(entries, central, seeds),
        told=(*by_situation(entries, central), *_defeats(entries).values()),
        grids={"leaderboard": leaderboard(entries, central), **_defeats(entries)},
        figures=_figures(entries, central),
    )


def _figures(entries: Sequence[Entry], central: Central) -> dict[str, tuple[Chart, ...]]:
    """Two for the first company, and two more for each other one."""
    found = {}
    for place, (name, group) in enumerate(groups(entries).items()):
        suffix = "" if place == 0 else "-" + name.lower().replace(" ", "-")
        found[f"accuracy-epsilon{suffix}"] = epsilon_charts(group, central, name)
        found[f"accuracy-bytes{suffix}"] = bytes_charts(group, central, name)
    return found


def comparison_page(entries: Sequence[Entry], central: Central, seeds: int) -> Page:
    """Privacy, where our method stands, the table, the figures, the configurations."""
    companies = groups(entries).items()
    by_epsilon = tuple(chart for name, group in companies for chart in epsilon_charts(group, central, name))
    by_bytes = tuple(chart for name, group in companies for chart in bytes_charts(group, central, name))
    sections = (
        Section("Where FedSPD-DP stands", standing(entries, seeds), grids=tuple(_defeats(entries).values())),
        Section("Accuracy against epsilon", charts=by_epsilon),
        Section("Accuracy against bytes uploaded", charts=by_bytes),
        Section("Leaderboard", (_about(central, seeds),), grids=(leaderboard(entries, central),)),
    )
    return Page(
        title="All methods at equal privacy",
        privacy=(*_statements(entries), PROTOCOL),
        sections=sections,
        configurations=tuple((_name(entry), tomli_w.dumps(entry.config.to_dict())) for entry in entries),
        environment=environment(),
    )


def _statements(entries: Sequence[Entry]) -> tuple[str, ...]:
    """What is claimed, how pure privacy was converted, and what is not comparable, as far as it is there."""
    titles = dict.fromkeys(entry.cell.label for entry in entries if _is_pure(entry) and entry.cell.method in PRIVATE)
    pure = (PURE.format(methods=", ".join(titles), delta=DELTA),) if titles else ()
    claims = (CLAIMS,) if any(entry.cell.method in CLAIMED for entry in entries) else ()
    return (STATEMENT.format(delta=DELTA), *pure, *claims, *on_own_records(entry.config for entry in entries))


def _is_pure(entry: Entry) -> bool:
    return METHODS[name_of(entry.cell.method)].noise == "spherical Laplace"


def leaderboard(entries: Sequence[Entry], central: Central) -> Grid:
    """One row per method and situation, best first within a situation, and all records together at the end."""
    columns = (
        "data", "takes part", "epsilon", "method", "guarantee", f"{central.measure}, %", central.loss_name, "MB up",
        "rounds", "seconds", "chosen",
    )  # fmt: skip
    ordered = sorted(entries, key=lambda e: (*_situation(e), -np.nan_to_num(e.score.mean(), nan=-1.0)))
    pooled: tuple[Cell, ...] = (
        "all together", None, None, central.title, "none", Measured(central.score, None, 2),
        Measured(central.loss, None, 4), None, None, None, None,
    )  # fmt: skip
    return Grid("Leaderboard", columns, (*(_row(entry) for entry in ordered), pooled), PROTOCOL)


def by_situation(entries: Sequence[Entry], central: Central) -> tuple[Grid, ...]:
    """The same as one narrow table per deal and participation, for the terminal."""
    board = leaderboard(entries, central)
    first, beyond = board.columns.index("epsilon"), board.columns.index("chosen")
    return tuple(
        Grid(
            f"{NAMES[deal]}, {SHARES[share]}",
            board.columns[first:beyond],
            tuple(
                row[first:beyond] for row in board.rows if row[:first] in ((NAMES[deal], share), ("all together", None))
            ),
        )
        for deal, share in _places(entries)
    )


def _defeats(entries: Sequence[Entry]) -> dict[str, Grid]:
    """The table of lost duels by its file name; none without ours, since an empty one would read as victory."""
    return {"behind": behind_grid(entries)} if has_ours(entries) else {}


def behind_grid(entries: Sequence[Entry]) -> Grid:
    """Where another private method is ahead of ours."""
    columns = ("data", "takes part", "epsilon", "method", "ahead by, points", "more than one s.e.")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            NAMES[found.cell.deal],
            found.cell.participation,
            found.cell.epsilon,
            found.cell.label,
            Measured(found.difference, found.error, 2),
            {True: "yes", False: "no", None: None}[found.more_than_one_error],
        )
        for found in behind(entries)
    )
    return Grid(f"Situations in which another method is ahead of {OURS}", columns, rows)


def groups(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Our method with each company of proved ones that is there; all others are in the table only.

    Without a name where there is one company only.
    """
    ours = [entry for entry in entries if name_of(entry.cell.method) == "fedspd"]
    others = [entry for entry in entries if entry.cell.method in PRIVATE and entry not in ours]
    found = list(dict.fromkeys(company(entry.cell.method) for entry in others))
    if len(found) < 2:
        return {"": ours + others}
    return {name: ours + [entry for entry in others if company(entry.cell.method) == name] for name in found}


def epsilon_charts(entries: Sequence[Entry], central: Central, name: str = "") -> tuple[Chart, ...]:
    """One chart per situation, one line per method."""
    charts = []
    for deal, share in _places(entries):
        here = [e for e in entries if (e.cell.deal, e.cell.participation) == (deal, share) and e.cell.epsilon < inf]
        series = []
        for method in dict.fromkeys(e.cell.method for e in here):
            own = sorted((e for e in here if e.cell.method == method), key=lambda e: e.cell.epsilon)
            reached = [measured(e.score, 2) for e in own]
            series.append(banded(own[0].cell.label, [e.cell.epsilon for e in own], reached))
        title = f"{NAMES[deal]}, {SHARES[share]}" + (f": {name}" if name else "")
        references = (("central, no privacy", central.score),)
        charts.append(
            Chart(
                title,
                "total epsilon",
                f"test {central.measure}, %",
                tuple(series),
                references,
                log_x=True,
                markers=True,
            )
        )
    return tuple(charts)


def bytes_charts(entries: Sequence[Entry], central: Central, name: str = "") -> tuple[Chart, ...]:
    """Accuracy after every round against what was uploaded until then, at one budget."""
    budgets = sorted({e.cell.epsilon for e in entries if e.cell.epsilon < inf})
    if not budgets:
        return ()
    budget = min(budgets, key=lambda epsilon: abs(epsilon - AT_BYTES))
    charts = []
    for deal, share in _places(entries):
        here = [e for e in entries if (e.cell.deal, e.cell.participation, e.cell.epsilon) == (deal, share, budget)]
        series = tuple(
            banded(e.cell.label, _megabytes(e), [measured(value, 2) for value in _accuracy_by_round(e)]) for e in here
        )
        title = f"{NAMES[deal]}, {SHARES[share]}, epsilon {budget:g}" + (f": {name}" if name else "")
        charts.append(Chart(title, "MB uploaded by all clients", f"test {central.measure}, %", series, markers=True))
    return tuple(charts)


def _row(entry: Entry) -> tuple[Cell, ...]:
    cell, summary = entry.cell, entry.results[0].summary
    return (
        NAMES[cell.deal],
        cell.participation,
        None if cell.epsilon == inf else cell.epsilon,
        cell.label,
        METHODS[name_of(cell.method)].guarantee,
        measured(entry.score, 2),
        measured(entry.values("test_loss"), 4),
        round(float(entry.values("bytes_uploaded").mean()) / 1e6, 3),
        summary.rounds,
        measured(entry.values("wall_seconds"), 2),
        ", ".join(f"{name.partition('.')[2]} {value:.3g}" for name, value in entry.chosen.items()),
    )


def _about(central: Central, seeds: int) -> str:
    return (
        f"Means over {seeds} seeds with standard errors. {', '.join(BY_RULE)}: not tuned, step sizes by rules on "
        "public numbers, whose constants were set once on a validation split of Adult. "
        f"{central.title} on all records together, without privacy: {central.score:.2f} %, {central.loss_name} "
        f"{central.loss:.4f}. Uploads are counted at eight bytes a number."
    )


def _accuracy_by_round(entry: Entry) -> np.ndarray:
    """Percent, (rounds, seeds)."""
    return 100 * np.array([result.history.score for result in entry.results]).T


def _megabytes(entry: Entry) -> list[float]:
    summary, history = entry.results[0].summary, entry.results[0].history
    a_reply = summary.bytes_uploaded / summary.uploads
    return (np.cumsum(history["participants"]) * a_reply / 1e6).tolist()


def _places(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((e.cell.deal, e.cell.participation) for e in entries))


def _situation(entry: Entry) -> tuple[int, int, float]:
    return list(NAMES).index(entry.cell.deal), list(SHARES).index(entry.cell.participation), entry.cell.epsilon


def _name(entry: Entry) -> str:
    cell = entry.cell
    budget = "without privacy" if cell.epsilon == inf else f"epsilon {cell.epsilon:g}"
    return f"{NAMES[cell.deal]}, {SHARES[cell.participation]}, {budget}: {cell.label}"
