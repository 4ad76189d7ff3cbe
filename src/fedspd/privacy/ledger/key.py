"""The key by which records are held out, kept beside a ledger so that all runs on it hold out the same ones."""

import os
import secrets
from pathlib import Path

from fedspd.errors import InputError
from fedspd.privacy.ledger.file import persist_name
from fedspd.privacy.ledger.ledger import Ledger
from fedspd.typing import EVALUATION

BYTES = 32


def key_path(ledger: Path) -> Path:
    """Where the key of a ledger is: beside it."""
    return ledger.with_name(f"{ledger.name}.key")


def held_out_key(ledger: Ledger) -> bytes:
    """The key of a ledger, drawn from the operating system by the first run that holds records out.

    Raises:
        InputError: the key is damaged, or it is gone from a ledger that has measured models with it.
    """
    path = key_path(ledger.path)
    if not path.exists():
        if any(charged.mechanism == EVALUATION for charged in ledger.charges()):
            raise InputError(
                f"the key by which records are held out must stay beside its ledger, got none at {path}: a new one "
                "would hold out records that were trained on; put it back, or name a new ledger."
            )
        _draw(path)
    key = path.read_bytes()
    if len(key) != BYTES:
        raise InputError(f"the key beside a ledger must have {BYTES} bytes, got {len(key)} in {path}; put it back.")
    return key


def _draw(path: Path) -> None:
    """Whole or not there, and the first of two processes wins."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(secrets.token_bytes(BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
        persist_name(path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
