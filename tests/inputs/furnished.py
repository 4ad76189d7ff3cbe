"""A folder with everything that a command may be given: what is good, and what is broken in one place each."""

import gzip
import io
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from fedspd.privacy.accounting import FixedSize
from fedspd.privacy.ledger import Budget
from tests.inputs.broken_schemas import SCHEMA, SCHEMAS
from tests.inputs.typed import typed
from tests.support.ledger.fresh import new_ledger

HEADER = "site,age,ward,y"
ROWS = [f"s{number % 4},{20 + number},{'ab'[number % 2]},{('no', 'yes')[number // 3 % 2]}" for number in range(40)]
GOOD = "\n".join([HEADER, *ROWS, ""])
CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
CONFIGURATIONS: dict[str, str | bytes] = {
    "c-empty-section.toml": "[]\n",
    "c-list.toml": "run = [1, 2]\n",
    "c-twice.toml": "[run]\nseed = 1\nseed = 2\n",
    "c-nul.toml": b"[run]\nseed = \x00\n",
    "c-utf16.toml": "[run]\nseed = 1\n".encode("utf-16"),
    "c-png.toml": PNG,
    "c-deep.toml": "x = " + "[" * 100_000,
    "c-unknown.toml": "[runn]\nseed = 1\n",
    "c-type.toml": '[run]\nseed = "one"\n',
    "c-key.toml": "[run]\nsede = 1\n",
    "c-date.toml": "[run]\nseed = 2020-01-01\n",
    "c-int.toml": f"[run]\nseed = {'9' * 5000}\n",
    "c-empty-key.toml": '[run]\n"" = 1\n',
    "f-empty.toml": "",
    "f-unknown.toml": "[federatoin]\nx = 1\n",
    "f-folder.toml": "[federation]\nfolder = 3\n",
    "f-threshold.toml": "[federation]\nthreshold = 4\n" + "".join(f'[[site]]\nname = "{name}"\n' for name in "abc"),
}
TABLES: dict[str, str | bytes] = {
    "good.csv": GOOD,
    "table.csv.gz": gzip.compress(GOOD.encode()),
    "t-empty.csv": "",
    "t-header.csv": f"{HEADER}\n",
    "t-short.csv": f"{GOOD}s1,3\n",
    "t-quote.csv": f'{GOOD}s1,"3,a,no\n',
    "t-text.csv": f"{GOOD}s1,old,a,no\n",
    "t-inf.csv": f"{GOOD}s1,inf,a,no\n",
    "t-nul.csv": f"{GOOD}s1,3\x00,a,no\n",
    "t-latin.csv": f"{GOOD}s1,3,\xe9,no\n".encode("latin-1"),
    "t-class.csv": f"{GOOD}s1,3,a,maybe\n",
    "t-column.csv": GOOD.replace("age", "years", 1),
    "t-twice.csv": GOOD.replace("site,", "age,", 1),
    "t-png.csv": PNG,
    "t-cut.csv.gz": gzip.compress(GOOD.encode() * 99)[:-20],
}
CHANGED = {
    "classes-null": "evaluation", "epsilon-text": "evaluation", "name-null": "evaluation", "low-null": "evaluation",
    "one-class": "evaluation", "rate-missing": "evaluation", "epsilon-null": "inference",
    "coefficient-text": "inference", "claimed_epsilon-odd": "audit", "delta-odd": "audit", "confidence-odd": "audit",
    "ratio-text": "audit", "meaning-null": "statement", "no-guesses": "statement", "size-endless": "statement",
    "rows-endless": "statement",
}  # fmt: skip
"""Files of the fuzzer's corpus that are put into a run's folder, by what they are in place of."""


def furnish(folder: Path) -> None:
    """Put everything there."""
    for name, content in (CONFIGURATIONS | TABLES | {"schema.toml": SCHEMA} | SCHEMAS).items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"age": [1, 2], "y": ["no", "yes"]}), sink)
    (folder / "good.parquet").write_bytes(sink.getvalue())
    (folder / "t-cut.parquet").write_bytes(sink.getvalue()[:-20])
    for name, file in (("full", "note.txt"), ("swept", "sweep.toml")):
        (folder / name).mkdir()
        (folder / name / file).touch()
    ledgers(folder)
    done = typed(
        folder, "run", "--data", "good.csv", "--schema", "schema.toml", "--client", "site", "--test-share", "0.2",
        "--set", "run.rounds=2", "--quiet", "--out", "done",
    )  # fmt: skip
    assert done.code == 0, done.err
    run_folders(folder)


def ledgers(folder: Path) -> None:
    """One that is good, and some that are not."""
    event = FixedSize(2.607, 325, 50)
    with new_ledger(folder / "good.db") as ledger:
        ledger.enter({"ann": Budget(1.0, 1e-4)}, {"ann": {event: 20}})
        ledger.charge("first", 1, "uploads", {"ann": event})
    content = (folder / "good.db").read_bytes()
    (folder / "l-empty.db").touch()
    (folder / "l-cut.db").write_bytes(content[: len(content) // 2])
    (folder / "l-edited.db").write_bytes(content.replace(b"2.607", b"9.607"))
    with sqlite3.connect(folder / "l-foreign.db") as other:
        other.execute("create table charges (x)")


def run_folders(folder: Path) -> None:
    """Copies of a finished run with one file that is wrong."""
    summary = json.loads((folder / "done" / "summary.json").read_text())
    with np.load(folder / "done" / "model.npz") as stored:
        model = {name: stored[name] for name in stored.files}
    texts = {
        "r-summary-text": ("summary.json", "{"),
        "r-summary-list": ("summary.json", "[]"),
        "r-summary-other": ("summary.json", json.dumps(summary | {"epsilon": "one"})),
        "r-summary-deep": ("summary.json", "[" * 100_000),
        "r-history-text": ("history.csv", "round\nx\n"),
        "r-history-empty": ("history.csv", ""),
        "r-environment": ("environment.json", "3"),
        "r-page": ("page.json", '{"title": 3}'),
        "r-model-text": ("model.npz", "weights"),
        "r-model-empty": ("model.npz", ""),
    }
    for name, (file, text) in texts.items():
        shutil.copytree(folder / "done", folder / name)
        (folder / name / file).write_text(text)
    for name, file in (("r-no-summary", "summary.json"), ("r-no-config", "config.toml")):
        shutil.copytree(folder / "done", folder / name)
        (folder / name / file).unlink()
    arrays: dict[str, dict[str, np.ndarray]] = {
        "r-model-pickle": model | {"weights": np.array([{}], dtype=object)},
        "r-model-loss": model | {"loss": np.array("logistic")},
        "r-model-shape": model | {"weights": np.zeros((3, 3, 3))},
        "r-model-nan": model | {"weights": np.full_like(model["weights"], np.nan)},
        "r-model-schema": model | {"schema": np.array("[")},
        "r-model-cut": model,
    }
    for name, stored in arrays.items():
        shutil.copytree(folder / "done", folder / name)
        np.savez(folder / name / "model.npz", allow_pickle=True, **stored)  # pyright: ignore[reportArgumentType]
    for name, kind in CHANGED.items():
        shutil.copytree(folder / "done", folder / f"x-{name}")
        shutil.copy(CORPUS / kind / name, folder / f"x-{name}" / f"{kind}.json")
    shutil.copytree(folder / "done", folder / "x-work")
    (folder / "x-work" / "unfinished.json").write_text("{")
    cut = folder / "r-model-cut" / "model.npz"
    cut.write_bytes(cut.read_bytes()[:-100])
