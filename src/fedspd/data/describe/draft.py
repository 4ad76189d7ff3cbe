"""A first draft of a schema, read off a table, for its owner to confirm or replace line by line."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from fedspd.data.describe.guess import MOST_LEVELS, Guessed, read_guessed
from fedspd.data.describe.quality import Quality, quality_of_numbers, quality_of_texts
from fedspd.data.files.cells import DATE, MISSING, Numbers, Texts, number_of
from fedspd.data.files.reading import Columns, Paths, open_files, read_columns
from fedspd.errors import InputError

MOST_CLASSES = 20  # so many different whole numbers may be classes
FEW = 10  # so many different whole numbers may be codes
MANY = 100  # so many records must all differ before they look like identifiers

WARNING = """\
# A draft that was read off the records, and gives some of them away: the largest value of a column is the value of one
# person, and whoever sees the bound knows it; a rare level says that somebody has it. Noise does not help, since bounds
# and levels are handed out as they are.
#
# Go through every entry. Put in what is known without looking at the records (how old can a patient be? which wards are
# there?), or leave what is that already, and then set confirmed = true. A run whose privacy is proved starts only when
# every entry is confirmed.
"""


class Draft(NamedTuple):
    """A schema to be confirmed, and what was seen in the table: for its owner's eyes only."""

    text: str  # TOML
    report: Mapping[str, Quality]


class Entry(NamedTuple):
    """What a schema says of a column, or None where it is left out, and what its owner should know."""

    keys: dict[str, Any] | None
    note: str = ""


def describe_table(paths: Paths, target: str, client: str | None = None, person: str | None = None) -> Draft:
    """Read a table and guess at its schema: numbers with bounds, texts with levels, and the kind of its target.

    Args:
        paths: as `read_columns` takes them.
        target: the column to be predicted.
        client: the column that names the client of each record; None: every file is a client.
        person: the column that says whom a record is about; None: nothing is known of that.
    """
    naming = {whom: name for whom, name in (("client", client), ("person", person)) if name is not None}
    special = [target, *naming.values()]
    for number, (whom, name) in enumerate(naming.items(), start=1):
        if name in special[:number]:
            raise InputError(
                f"target, client and person must be different columns, got {name!r} for two; name another {whom}."
            )
    source = open_files(paths, special, MISSING)[0]
    aims = read_columns(paths, [target], [target], most_levels=MOST_LEVELS)
    for whom, name in naming.items():
        read_columns(paths, [], [name]).named(name, whom)
    aim = _target(aims, target)
    names = [name for name in dict.fromkeys(source.names) if name not in special]
    guessed = read_guessed(paths, source, [name for name in names if name and source.names.count(name) == 1])
    entries = {name: _entry(guessed, name, source.names.count(name)) for name in names}
    if all(entry.keys is None for entry in entries.values()):
        raise InputError(f"{source.path} must have columns to predict from, got none that can be used; add some.")
    report = {name: _quality(guessed, name, entry) for name, entry in entries.items()}
    counted = quality_of_numbers(aims.numbers[target]) if "classes" not in aim else quality_of_texts(aims.texts[target])
    report[target] = counted._replace(note="target")
    return Draft(_text(naming, aim, entries, guessed.markers), report)


def _target(found: Columns, target: str) -> dict[str, Any]:
    """What a schema says of the target."""
    numbers, texts = found.numbers[target], found.texts[target]
    values = numbers.values[~np.isnan(numbers.values)]
    is_whole = bool((values == np.floor(values)).all())
    if numbers.unreadable or (is_whole and not texts.too_many and len(texts.levels) <= MOST_CLASSES):
        if texts.too_many or _are_dates(texts):
            raise InputError(
                f"{found.where(numbers.where[0])}: column {target!r}, the target, must hold numbers, or at most "
                f"{MOST_LEVELS} classes, got something else; name another column, or correct this one."
            )
        if len(texts.levels) < 2:
            raise InputError(
                f"{found.where(0)}: column {target!r}, the target, must differ between records, got "
                f"{'one value' if texts.levels else 'nothing'} in all of them; name another column."
            )
        by_number = sorted(texts.levels, key=lambda level: (number_of(level, MISSING), level))
        return {"column": target, "classes": sorted(texts.levels) if numbers.unreadable else by_number}
    if is_whole and values.min() >= 0:
        return {"column": target, "most": float(values.max())}
    return {"column": target, "bounds": [float(values.min()), float(values.max())]}


def _entry(guessed: Guessed, name: str, times: int) -> Entry:
    if not name:
        return Entry(None, "its name is empty")
    if times > 1:
        return Entry(None, "the header names it more than once")
    column = guessed.columns.get(name)
    if column is None:
        return Entry(None, "it does not hold one value in each cell")
    return _numeric(column) if isinstance(column, Numbers) else _categorical(column)


def _numeric(column: Numbers) -> Entry:
    values = np.unique(column.values[~np.isnan(column.values)])
    known = len(column.values) - column.missing - column.unreadable
    if len(values) < 2:
        return Entry(None, "it holds the same in every record" if len(values) else "it holds nothing")
    is_whole = bool((values == np.floor(values)).all())
    if is_whole and len(values) == known >= MANY:
        return Entry(None, "every record has another whole number, as identifiers have")
    lower, upper = float(values[0]), float(values[-1])
    notes = [f"{column.unreadable} cells hold no number"] if column.unreadable else []
    if is_whole and 2 < len(values) <= FEW:
        notes.append(f"{len(values)} different whole numbers; if they are codes, declare levels instead of bounds")
    return Entry({"bounds": [lower, upper], "missing": lower / 2 + upper / 2}, "; ".join(notes))


def _categorical(column: Texts) -> Entry:
    if column.too_many:
        return Entry(None, f"it has more than {MOST_LEVELS} levels, as free text and identifiers have")
    if len(column.levels) < 2:
        return Entry(None, "it holds the same in every record" if column.levels else "it holds nothing")
    if _are_dates(column):
        return Entry(None, "it holds dates; turn them into numbers, such as a year or days since an event")
    if len(column.levels) == len(column.codes) - column.missing >= MANY:
        return Entry(None, "every record has another text, as identifiers have")
    return Entry({"levels": sorted(column.levels)})


def _are_dates(column: Texts) -> bool:
    return bool(column.levels) and all(DATE.fullmatch(level) for level in column.levels)


def _quality(guessed: Guessed, name: str, entry: Entry) -> Quality:
    column = guessed.columns.get(name)
    if column is None:
        return Quality("left out", guessed.rows, 0, 0, None, note=entry.note)
    counted = quality_of_numbers(column) if isinstance(column, Numbers) else quality_of_texts(column)
    return counted._replace(
        kind="left out" if entry.keys is None else counted.kind,
        rows=guessed.rows,
        distinct=None if isinstance(column, Texts) and column.too_many else counted.distinct,
        note=entry.note,
    )


def _text(naming: dict[str, str], target: dict[str, Any], entries: Mapping[str, Entry], markers: list[str]) -> str:
    """The draft as TOML."""
    parts = [WARNING]
    if markers:
        parts.append(
            f"# Words among numbers; if they stand for missing ones:\n# missing_markers = {json.dumps(markers)}\n"
        )
    if naming:
        parts.append(_lines(naming))
    parts.append("[target]\n" + _lines(target | {"confirmed": False}))
    for name, (keys, note) in entries.items():
        if keys is None:
            parts.append(f"# Column {json.dumps(name)} is left out: {note}.\n")
            continue
        comment = f"# {note}\n" if note else ""
        parts.append(f"{comment}[[columns]]\n" + _lines({"name": name, **keys, "confirmed": False}))
    return "\n".join(parts)


def _lines(keys: Mapping[str, Any]) -> str:
    """Keys as TOML, each on one line."""
    return "".join(f"{key} = {_value(value)}\n" for key, value in keys.items())


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    text = tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")
    # a draft is printed, and terminals obey more characters than TOML asks to escape
    return "".join(each if each.isprintable() else f"\\U{ord(each):08X}" for each in text)
