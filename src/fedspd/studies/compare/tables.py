"""Tables of a comparison: the leaderboard by data, the summary over data, and where ours is behind."""

from collections.abc import Sequence
from math import inf

import numpy as np

from fedspd.algorithms import METHODS
from fedspd.report.page import Cell, Grid, Measured, measured
from fedspd.studies.compare.classes import class_of, places
from fedspd.studies.compare.plan import SHARES, Ground
from fedspd.studies.compare.run import Central, Entry
from fedspd.studies.compare.standing import behind, has_ours
from fedspd.studies.lineup import OURS, name_of
from fedspd.studies.tuning import PROTOCOL

NAMES = {"iid": "IID", "dirichlet": "Dirichlet 0.1", "occupation": "by occupation", "own": "clients of their own"}
SHARE_NAMES = {"full": "full participation", "20%": "20 % participation"}
SUMMARY = (
    "Of methods whose privacy is proved. Methods of a class share the mean of their places; the mean rank is over all "
    "situations that a method was entered in, with the standard deviation between them. First class: in how many "
    "situations it is the best or cannot be told apart from the best."
)


def leaderboard(entries: Sequence[Entry], centrals: Sequence[Central]) -> Grid:
    """One row per method and situation, best first within a situation, and all records together at the end of each."""
    measure, loss = _named([one.measure for one in centrals]), _named([one.loss_name for one in centrals])
    columns = (
        "data", "deal", "takes part", "epsilon", "class", "method", "guarantee", f"{measure}, %", loss, "MB up",
        "rounds", "seconds", "chosen",
    )  # fmt: skip
    known = class_of(entries)
    rows: list[tuple[Cell, ...]] = []
    for central in centrals:
        here = [entry for entry in entries if entry.cell.ground == central.ground]
        ordered = sorted(here, key=lambda e: (*_situation(e), -np.nan_to_num(e.score.mean(), nan=-1.0)))
        rows += [_row(entry, known.get(id(entry))) for entry in ordered]
        rows.append(_pooled(central))
    return Grid("Leaderboard", columns, tuple(rows), PROTOCOL)


def narrow(entries: Sequence[Entry], centrals: Sequence[Central]) -> tuple[Grid, ...]:
    """The same as one narrow table per data, deal and participation, for the terminal."""
    board = leaderboard(entries, centrals)
    where, hidden = board.columns[:3], ("MB up", "rounds", "chosen")
    kept = [place for place, name in enumerate(board.columns) if name not in (*where, *hidden)]
    grids = []
    for ground, deal, share in places_of(entries):
        shown = ((ground.name, NAMES[deal], share), (ground.name, "all together", None))
        rows = tuple(tuple(row[i] for i in kept) for row in board.rows if row[: len(where)] in shown)
        grids.append(Grid(place_name(ground, deal, share), tuple(board.columns[i] for i in kept), rows))
    return tuple(grids)


def summary(entries: Sequence[Entry]) -> dict[str, Grid]:
    """Mean ranks and first classes, by file name; none of one seed, which tells nothing apart."""
    found = places(entries)
    if not found:
        return {}
    grounds = list(dict.fromkeys(entry.cell.ground for entry in entries))
    columns = ("method", "situations", "mean rank", "first class", *(f"on {ground.name}" for ground in grounds))
    rows = []
    for place in found:
        spread = float(np.std(place.ranks, ddof=1)) if len(place.ranks) > 1 else None
        firsts = [place.firsts.get(ground) for ground in grounds]
        won, entered = (sum(pair[i] for pair in firsts if pair is not None) for i in (0, 1))
        rows.append(
            (
                place.label,
                len(place.ranks),
                Measured(float(np.mean(place.ranks)), spread, 1),
                f"{won} of {entered}",
                *(None if pair is None else f"{pair[0]} of {pair[1]}" for pair in firsts),
            )
        )
    return {"summary": Grid("Over all situations", columns, tuple(rows), SUMMARY)}


def defeats(entries: Sequence[Entry]) -> dict[str, Grid]:
    """The table of lost duels by its file name; none without ours, since an empty one would read as victory."""
    return {"behind": behind_grid(entries)} if has_ours(entries) else {}


def behind_grid(entries: Sequence[Entry]) -> Grid:
    """Where another private method is ahead of ours."""
    columns = ("data", "deal", "takes part", "epsilon", "method", "ahead by, points", "told apart")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            found.cell.ground.name,
            NAMES[found.cell.deal],
            found.cell.participation,
            found.cell.epsilon,
            found.cell.label,
            Measured(found.difference, found.error, 2),
            {True: "yes", False: "no", None: None}[found.told_apart],
        )
        for found in behind(entries)
    )
    return Grid(f"Situations in which another method is ahead of {OURS}", columns, rows)


def places_of(entries: Sequence[Entry]) -> list[tuple[Ground, str, str]]:
    """Data, deals and participations that occur."""
    return list(dict.fromkeys(entry.cell.place for entry in entries))


def place_name(ground: Ground, deal: str, share: str) -> str:
    """What tables and figures call it."""
    return f"{ground.name}, {NAMES[deal]}, {SHARE_NAMES[share]}"


def _row(entry: Entry, in_class: int | None) -> tuple[Cell, ...]:
    cell, first = entry.cell, entry.results[0].summary
    return (
        cell.ground.name,
        NAMES[cell.deal],
        cell.participation,
        None if cell.epsilon == inf else cell.epsilon,
        in_class,
        cell.label,
        METHODS[name_of(cell.method)].guarantee,
        measured(entry.score, 2),
        measured(entry.values("test_loss"), 4),
        round(float(entry.values("bytes_uploaded").mean()) / 1e6, 3),
        first.rounds,
        measured(entry.values("wall_seconds"), 2),
        ", ".join(f"{name.partition('.')[2]} {value:.3g}" for name, value in entry.chosen.items()),
    )


def _pooled(central: Central) -> tuple[Cell, ...]:
    return (
        central.ground.name, "all together", None, None, None, central.title, "none", Measured(central.score, None, 2),
        Measured(central.loss, None, 4), None, None, None, None,
    )  # fmt: skip


def _named(names: Sequence[str]) -> str:
    """Of one column that may hold different measures."""
    return " or ".join(dict.fromkeys(names))


def _situation(entry: Entry) -> tuple[int, int, float]:
    return list(NAMES).index(entry.cell.deal), SHARES.index(entry.cell.participation), entry.cell.epsilon
