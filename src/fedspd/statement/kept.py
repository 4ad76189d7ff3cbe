"""A statement held against the files of its run's folder: settings and schema by their digests, and what they say."""

import hashlib
import tomllib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from fedspd.results import Statement, own_file, read_model
from fedspd.results.run_folder import CONFIG, MODEL
from fedspd.statement.claim import from_settings
from fedspd.statement.comparison import Comparison

UNREADABLE = "a file that cannot be read"


def kept(found: Comparison, statement: Statement, folder: Path) -> None:
    """Compare what lies beside the statement; a statement that was sent by itself has nothing there."""
    digests = statement["digests"]
    if (config := own_file(folder, CONFIG)).is_file():
        content = config.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        found.equal("digests.configuration", digests["configuration"], digest)
        if digest == digests["configuration"]:
            for name, value in from_settings(tomllib.loads(content.decode())).items():
                found.equal(f"mechanism.{name}", statement["mechanism"][name], value)
    if own_file(folder, MODEL).is_file():
        schema, numbers = _model(folder)
        found.equal("digests.schema", digests["schema"], schema)
        found.equal("released.numbers", statement["released"]["numbers"], numbers)


def _model(folder: Path) -> tuple[str, Any]:
    try:
        model = read_model(folder)
        return hashlib.sha256(str(model["schema"]).encode()).hexdigest(), model["weights"].size
    except (OSError, ValueError, KeyError, BadZipFile):
        return UNREADABLE, UNREADABLE
