"""What reads bytes that somebody else wrote: each target takes any bytes and ends, or refuses them by `InputError`.

Anything else that a target raises is a finding. `scripts/fuzz.py` searches for one; `test_replay.py` plays the
committed corpus and what a short search by hypothesis adds to it.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedspd.config import load, parse_override
from fedspd.data import read_schema
from fedspd.data.describe.draft import describe_table
from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.messages import REPLIES, REQUESTS
from fedspd.errors import InputError
from fedspd.privacy.ledger import Ledger, verify
from fedspd.report import privacy_statement
from fedspd.report.folders import folders_page
from fedspd.results import read_summary
from fedspd.results.run_folder import RUN_FILES
from fedspd.scoring.model import load_model

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as Flower does for a server app
CORPUS = Path(__file__).parent / "corpus"
SCRATCH = Path(tempfile.mkdtemp(prefix="fedspd-fuzz-"))


def in_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], None]:
    """A target that reads a file of this name."""

    def target(content: bytes) -> None:
        path = SCRATCH / name
        path.write_bytes(content)
        read(path)

    return target


def setting(content: bytes) -> None:
    """What is typed after --set."""
    name, value = parse_override(content.decode("utf-8", "surrogateescape"))
    load("proved", {name: value})


def run_folder(content: bytes) -> None:
    """One file of a run folder, named by the first byte, the others as they should be."""
    folder = SCRATCH / "run"
    shutil.copytree(CORPUS / "run", folder, dirs_exist_ok=True)
    number, rest = (content[0] if content else 0), content[1:]
    (folder / RUN_FILES[number % len(RUN_FILES)]).write_bytes(rest)
    folders_page([folder])
    privacy_statement(read_summary(folder))


def ledger(path: Path) -> None:
    """A ledger that is opened, verified and read."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    verify(path)
    with Ledger(path) as opened:
        opened.charges()


def message(content: bytes) -> None:
    """A message of each kind with fields cut from the bytes."""
    kinds = {**REQUESTS, **{f"reply to {name}": kind for name, kind in REPLIES.items()}}
    name = sorted(kinds)[(content[0] if content else 0) % len(kinds)]
    record, rest = ConfigRecord(), content[1:]
    for place, field in enumerate(kinds[name]._fields):
        size = rest[place] % 16 if place < len(rest) else 0
        value = rest[place : place + size]
        record[field] = [value, len(value), value.decode("latin-1"), [len(value)]][size % 4]
        if size > 8:
            record[f"{field}.shape"] = [int(byte) - 8 for byte in value[:2]]
            record[f"{field}.kind"] = "<f8"
    kind = name.removeprefix("reply to ")
    sent = Message(RecordDict({wire.RECORD: record}), 7, kind, ttl=60.0, group_id="fuzz")
    read = wire.read_answer if name != kind else None
    _ = read(sent, kind) if read else wire.read_request(sent)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "configuration": in_file("config.toml", load),
    "setting": setting,
    "schema": in_file("schema.toml", read_schema),
    "table": in_file("table.csv", lambda path: describe_table([str(path)], "y", None)),
    "run-folder": run_folder,
    "model": in_file("model.npz", lambda path: load_model(path.parent)),
    "ledger": in_file("ledger.db", ledger),
    "message": message,
}


def refused(name: str, content: bytes) -> str | None:
    """The sentence that refuses the bytes; None where they are read."""
    try:
        with np.errstate(all="ignore"):
            TARGETS[name](content)
    except InputError as error:
        return str(error)
    return None
