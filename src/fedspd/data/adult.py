"""The Adult census income data (Becker and Kohavi, 1996), embedded: no network, no cache.

What is public about it (names, levels, bounds, the value a missing entry takes) is written here as
constants; what is private (the records) is in `adult.xz`, which `scripts/embed_adult.py` wrote.
"""

import csv
import lzma
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedspd.data.dataset import Category, Table
from fedspd.data.features.columns import Categorical, Numeric
from fedspd.data.schema import Schema
from fedspd.data.tabular import encode
from fedspd.errors import InputError
from fedspd.reading import setting
from fedspd.target import Classes

Columns = Literal["published", "all"]


def _levels(names: str) -> tuple[str, ...]:
    return tuple(names.split())


# In the order of adult.names, to which the codes of the embedded file refer.
LEVELS: dict[str, tuple[str, ...]] = {
    "workclass": _levels(
        "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked"
    ),
    "education": _levels(
        "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
        "1st-4th 10th Doctorate 5th-6th Preschool"
    ),
    "marital-status": _levels(
        "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
    ),
    "occupation": _levels(
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
        "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv "
        "Armed-Forces"
    ),
    "relationship": ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"),
    "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
    "sex": ("Female", "Male"),
    "native-country": _levels(
        "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan "
        "Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal "
        "Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua "
        "Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands"
    ),
}

# Declared, not measured: part of the public schema, taken as known before any record is read (the
# census' top codes, and round numbers where it has none).
BOUNDS: dict[str, tuple[float, float]] = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}

# Declared too, and equal to the most frequent training value: imputing with it is the published rule
# and yet reads no record. The other columns have no missing entry.
IMPUTED = {"workclass": "Private", "occupation": "Prof-specialty", "native-country": "United-States"}

CLASSES = ("<=50K", ">50K")
MISSING = 255
ROWS = (32_561, 16_281)

# Columns as the files have them, each with the integer type that holds it; `income` is the label.
LAYOUT: dict[str, str] = {
    "age": "u1",
    "workclass": "u1",
    "fnlwgt": "<u4",
    "education": "u1",
    "education-num": "u1",
    "marital-status": "u1",
    "occupation": "u1",
    "relationship": "u1",
    "race": "u1",
    "sex": "u1",
    "capital-gain": "<u4",
    "capital-loss": "<u2",
    "hours-per-week": "u1",
    "native-country": "u1",
    "income": "u1",
}

_LOGGED = ("capital-gain", "capital-loss")
_NOT_PUBLISHED = ("fnlwgt", "education")  # education-num says the same as education


@dataclass(frozen=True)
class AdultSettings:
    """What may be set of Adult alone."""

    columns: str = setting("published", "published: 81 features as declared; all: 105", choices=("published", "all"))
    log_capital: bool = setting(False, "take log(1 + x) of capital gain and loss")


def raw() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Training and test records as the files have them: one integer array per column of `LAYOUT`.

    A categorical column holds indices into its `LEVELS`, and `MISSING` where the file has a "?".
    """
    content = lzma.decompress((resources.files("fedspd.data") / "adult.xz").read_bytes())
    columns: dict[str, np.ndarray] = {}
    position = 0
    for name, dtype in LAYOUT.items():
        columns[name] = np.frombuffer(content, dtype, count=sum(ROWS), offset=position)
        position += columns[name].nbytes
    train, test = slice(0, ROWS[0]), slice(ROWS[0], None)
    return {k: v[train] for k, v in columns.items()}, {k: v[test] for k, v in columns.items()}


@lru_cache(maxsize=4)
def load(columns: Columns = "published", log_capital: bool = False) -> tuple[Table, Table]:
    """Training and test tables, unscaled, with missing entries imputed.

    Args:
        columns: "published" drops fnlwgt and education and the first level of every categorical column,
            which gives the 81 columns (162 weights) of the published experiments; "all" keeps all 105.
        log_capital: replace capital gain and loss by log(1 + value); most are 0, few are very large.
    """
    schema = adult_schema(columns, log_capital)
    train, test = raw()
    return _table(train, schema), _table(test, schema)


def adult_schema(columns: Columns = "published", log_capital: bool = True) -> Schema:
    """What is public about Adult, as a schema for files that hold some of its records; arguments as in `load`."""
    if columns not in get_args(Columns):
        raise InputError(f"columns must be one of {', '.join(get_args(Columns))}, got {columns!r}; pick one.")
    published = columns == "published"
    left_out = ("income", *_NOT_PUBLISHED) if published else ("income",)
    inputs = [
        Numeric(name, *map(float, BOUNDS[name]), missing=float(BOUNDS[name][0]), log=log_capital and name in _LOGGED)
        if name in BOUNDS
        else Categorical(name, LEVELS[name], IMPUTED.get(name), drop_first=published)
        for name in LAYOUT
        if name not in left_out
    ]
    return Schema(tuple(inputs), Classes("income", CLASSES))


def write_adult_csv(path: str | Path, rows: NDArray[np.integer], split: Literal["train", "test"] = "train") -> None:
    """Write some records as a site would hold them: a header, all columns of the original, "?" where one is missing."""
    records = raw()[("train", "test").index(split)]
    columns = []
    for name, values in records.items():
        if name in BOUNDS:
            columns.append(values[rows].tolist())
        else:
            text = {**dict(enumerate(LEVELS.get(name, CLASSES))), MISSING: "?"}
            columns.append([text[code] for code in values[rows].tolist()])
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(records)
        writer.writerows(zip(*columns, strict=True))


def _table(records: dict[str, np.ndarray], schema: Schema) -> Table:
    attributes = {name: _category(name, records[name]) for name in LEVELS}
    named = [column.name for column in schema.inputs]
    cells = {name: attributes[name].codes if name in LEVELS else records[name] for name in named}
    labels = records["income"].astype(np.int64)
    return Table(encode(cells, schema), labels, schema.columns, CLASSES, attributes, cells=cells)


def _category(name: str, codes: np.ndarray) -> Category:
    if name in IMPUTED:
        codes = np.where(codes == MISSING, LEVELS[name].index(IMPUTED[name]), codes)
    return Category(codes, LEVELS[name])
