"""The real tables by name: their records in a fixed split, their schema, and whom to thank for them."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedspd.data.boxed.packed import Columns, read_packed
from fedspd.data.boxed.scikit import read_breast_cancer, read_diabetes, read_digits
from fedspd.errors import InputError
from fedspd.reading import nearest

CC_BY = "CC BY 4.0"


class Boxed(NamedTuple):
    """A table as its source has it, one array for each column, and what is public about it.

    A column of numbers holds float64, not-a-number where an entry is missing. All others hold text, "?" where one is.
    """

    train: Columns
    test: Columns
    schema_path: Path
    citation: str
    license: str


class _Entry(NamedTuple):
    read: Callable[[], Columns]
    citation: str
    license: str
    person: str | None = None  # the column that says whom a record is about, where a person has several


def _embedded(name: str, citation: str, license: str, person: str | None = None) -> _Entry:
    return _Entry(partial(read_packed, name), citation, license, person)


_ENTRIES = {
    "breast-cancer": _Entry(
        read_breast_cancer,
        "Wolberg, W., Mangasarian, O., Street, N. and Street, W. (1993). Breast Cancer Wisconsin (Diagnostic) "
        "[Dataset]. UCI Machine Learning Repository. https://doi.org/10.24432/C5DW2B",
        CC_BY,
    ),
    "credit": _embedded(
        "credit",
        "Yeh, I. (2009). Default of Credit Card Clients [Dataset]. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C55S3H",
        CC_BY,
    ),
    "diabetes": _Entry(
        read_diabetes,
        "Efron, B., Hastie, T., Johnstone, I. and Tibshirani, R. (2004). Least angle regression. Annals of Statistics "
        "32(2), 407-499. https://doi.org/10.1214/009053604000000067",
        "none stated",
    ),
    "diamonds": _embedded(
        "diamonds",
        "Wickham, H. (2016). ggplot2: Elegant Graphics for Data Analysis. Springer. "
        "https://doi.org/10.1007/978-3-319-24277-4",
        "MIT",
    ),
    "digits": _Entry(
        read_digits,
        "Alpaydin, E. and Kaynak, C. (1998). Optical Recognition of Handwritten Digits [Dataset]. UCI Machine Learning "
        "Repository. https://doi.org/10.24432/C50P49",
        CC_BY,
    ),
    "letters": _embedded(
        "letters",
        "Slate, D. (1991). Letter Recognition [Dataset]. UCI Machine Learning Repository. https://doi.org/10.24432/C5ZP40",
        CC_BY,
    ),
    "visits": _embedded(
        "visits",
        "Cameron, A. C. and Trivedi, P. K. (2005). Microeconometrics: Methods and Applications. Cambridge University "
        "Press, chapter 20; collected by the RAND Corporation in the Health Insurance Experiment, 1974 to 1982.",
        "public domain",
        person="person",
    ),
}

NAMES = tuple(_ENTRIES)


def read_boxed(name: str) -> Boxed:
    """The records of a table, a fifth of them for tests: always the same ones, and no person in both parts."""
    if name not in _ENTRIES:
        raise InputError(f"expected the name of a boxed table, got {name!r}; {nearest(name, NAMES)}")
    entry = _ENTRIES[name]
    columns = entry.read()
    rows = len(next(iter(columns.values())))
    tested = _tested(columns[entry.person] if entry.person else np.arange(rows).astype(str))
    train, test = ({key: values[part] for key, values in columns.items()} for part in (~tested, tested))
    return Boxed(train, test, schema_path(name), entry.citation, entry.license)


def schema_path(name: str) -> Path:
    """Where the schema of a table stands."""
    return Path(__file__).with_name(f"{name}.toml")


def _tested(units: np.ndarray) -> np.ndarray:
    """Which records are in the test set: those of the fifth of all units whose names have the smallest hashes."""
    names, place = np.unique(units, return_inverse=True)
    order = np.argsort([hashlib.sha256(unit.encode()).hexdigest() for unit in names.tolist()])
    chosen = np.zeros(len(names), dtype=bool)
    chosen[order[: len(names) // 5]] = True
    return chosen[place]
