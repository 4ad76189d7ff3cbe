"""Which columns of a table are numbers and which are texts, as far as their cells tell."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from fedspd.data.files.cells import MISSING, Numbers, Texts, number_of, stripped
from fedspd.data.files.reading import Paths, Source, read_columns
from fedspd.errors import InputError

MOST_LEVELS = 1000
MOSTLY = 0.9  # share of the first cells that are numbers in a column of numbers
MOST_ODD = 0.01  # share of all cells that are none in it
MOST_MARKERS = 5


class Guessed(NamedTuple):
    """The columns of a table; one that holds lists or the like is not among them."""

    rows: int
    columns: dict[str, Numbers | Texts]
    markers: list[str]  # words among numbers, which may stand for a missing one


def read_guessed(paths: Paths, source: Source, names: Sequence[str]) -> Guessed:
    """Read columns as numbers where nearly all of their cells are, as texts elsewhere.

    Args:
        paths: the files of the table.
        source: one of them, whose first records give a hint.
        names: columns that the header names once.
    """
    first = _first_words(source, names)
    numeric = [name for name, words in first.items() if _are_numbers(words, MOSTLY)]
    text = [name for name in first if name not in numeric]
    if not first:
        raise InputError(f"{source.path} must have columns to predict from, got none that can be used; add some.")
    found = read_columns(paths, numeric, text, most_levels=MOST_LEVELS)
    no_numbers = [name for name, one in found.numbers.items() if one.unreadable > MOST_ODD * found.rows]
    no_texts = [name for name, one in found.texts.items() if _are_numbers(one.levels, 1.0)]
    columns = {**found.numbers, **found.texts}
    if no_numbers or no_texts:
        again = read_columns(paths, no_texts, no_numbers, most_levels=MOST_LEVELS)
        columns |= {**again.numbers, **again.texts}
    markers = {
        word
        for name in {*numeric} - {*no_numbers}
        for word in first[name]
        if np.isinf(number_of(word, MISSING)) and len(word) <= 12 and not any(sign.isdigit() for sign in word)
    }
    return Guessed(found.rows, {name: columns[name] for name in first}, sorted(markers)[:MOST_MARKERS])


def _are_numbers(words: Sequence[str], share: float) -> bool:
    numbers = np.array([number_of(word, MISSING) for word in words if word not in MISSING])
    is_truth = {word.lower() for word in words if word not in MISSING} <= {"true", "false"}
    return len(numbers) > 0 and not is_truth and np.isfinite(numbers).mean() >= share


def _first_words(source: Source, names: Sequence[str]) -> dict[str, list[str]]:
    """The different cells of each column among the first records."""
    cells = _first(source, [source.names.index(name) for name in names])
    return {
        name: sorted({stripped(word) for word in cells[place].unique().to_pylist() if word is not None})
        for name in names
        if (place := source.names.index(name)) in cells
    }


def _first(source: Source, places: Sequence[int]) -> dict[int, Any]:
    try:
        with closing(source.batches([], places)) as batches:
            return dict(next(batches, (0, {}))[1]) if places else {}
    except InputError:
        if len(places) == 1:
            return {}
        return {place: cells for one in places for place, cells in _first(source, [one]).items()}
