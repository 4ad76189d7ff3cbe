"""What reads bytes that somebody else wrote: each target takes any bytes and ends, or refuses them by `InputError`.

Anything else that a target raises is a finding. `scripts/fuzz.py` searches for one; `test_replay.py` plays the
committed corpus and what a short search by hypothesis adds to it.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

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
from fedspd.report import grid_terminal, privacy_statement
from fedspd.report.of_runs.audited import audit_section
from fedspd.report.of_runs.evaluation import evaluation_sections, inference_sections
from fedspd.report.of_runs.folders import folders_page
from fedspd.report.page import Section
from fedspd.report.statement import card
from fedspd.report.statement.html import sections_html, statement_html
from fedspd.report.statement.markdown import sections_markdown, statement_markdown
from fedspd.results import (
    STATEMENT,
    WORK_FILE,
    Checkpoints,
    Statement,
    read_run,
    read_statement,
    read_statement_file,
    read_summary,
    read_work,
    to_json,
)
from fedspd.results.audit import AUDIT, read_audit
from fedspd.results.checkpoint import DIGEST_SIZE
from fedspd.results.evaluation import EVALUATION
from fedspd.results.inference import INFERENCE, read_inferences
from fedspd.results.run_folder import RUN_FILES
from fedspd.results.statement import statement_text
from fedspd.scoring.model import load_model
from fedspd.statement import against, card_of, registry_text
from fedspd.statement.beside import with_beside

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as Flower does for a server app
CORPUS = Path(__file__).parent / "corpus"
HELD_OUT = CORPUS / "held-out-run"
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


def statement(path: Path) -> None:
    """A statement in every form, and held against the ledger of the run that the corpus began with."""
    found = read_statement_file(path)
    for form in (statement_html, statement_markdown, statement_text, registry_text):
        form(found).encode()
    with Ledger(_beside()) as opened:
        against(found, opened)


@cache
def _beside() -> Path:
    return Path(shutil.copy(HELD_OUT / "ledger.sqlite", SCRATCH / "beside.sqlite"))


def evaluation(path: Path) -> None:
    """Measurements as sentences, tables and JSON, and the card that they stand on."""
    run = read_run(_run_with(path))
    shown(evaluation_sections(run.evaluations))
    shown(card.card_sections(card_of(run, _statement())))
    for one in run.evaluations:
        to_json(asdict(one))


def inference(path: Path) -> None:
    """Coefficients as sentences, a table and JSON."""
    found = read_inferences(path.parent)
    shown(inference_sections(found))
    to_json([asdict(one) for one in found])


def audit(path: Path) -> None:
    """An audit as a section of a page, and in the statement that it stands beside."""
    shown((audit_section("", required(read_audit(path.parent))),))
    statement_markdown(with_beside(_statement(), _run_with(path)))


def required(found: Any) -> Any:
    """What was read; there is a file."""
    assert found is not None
    return found


def _run_with(path: Path) -> Path:
    """The folder of a run with this file in it."""
    folder = SCRATCH / f"run with {path.name}"
    shutil.copytree(HELD_OUT, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("ledger*"))
    shutil.copy(path, folder)
    return folder


@cache
def _statement() -> Statement:
    return read_statement(HELD_OUT)


def shown(sections: Sequence[Section]) -> None:
    """Sections as a terminal, a page and Markdown have them."""
    for grid in (grid for section in sections for grid in section.grids):
        grid_terminal(grid)
    sections_html("", "", sections, "").encode()
    sections_markdown("", tuple(sections)).encode()


def checkpoint(content: bytes) -> None:
    """A checkpoint that its digest fits, whoever wrote it."""
    made = hashlib.blake2b(content, digest_size=DIGEST_SIZE).digest()
    (SCRATCH / "checkpoint-1").write_bytes(content + made)
    Checkpoints(SCRATCH).read()


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
    "checkpoint": checkpoint,
    "statement": in_file(STATEMENT, statement),
    "evaluation": in_file(EVALUATION, evaluation),
    "inference": in_file(INFERENCE, inference),
    "audit": in_file(AUDIT, audit),
    "unfinished": in_file(WORK_FILE, lambda path: read_work(path.parent)),
}


def refused(name: str, content: bytes) -> str | None:
    """The sentence that refuses the bytes; None where they are read."""
    try:
        with np.errstate(all="ignore"):
            TARGETS[name](content)
    except InputError as error:
        return str(error)
    return None
