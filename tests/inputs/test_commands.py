"""Whatever is typed wrong: exit code 2, one sentence with what was expected and got, nothing written, and soon."""

import re
import time
import tomllib
from pathlib import Path

import pytest

from tests.inputs.furnished import furnish
from tests.inputs.typed import Typed, contents, typed

TABLE: dict[str, tuple[list[str], str]] = tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))
USAGE = "Usage: "
SOON = 10.0  # seconds on a busy machine; most take a hundredth


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("furnished")
    furnish(made)
    return made


@pytest.mark.parametrize("name", TABLE)
def test_what_is_typed_wrong_is_refused_in_a_sentence_and_leaves_nothing(folder: Path, name: str) -> None:
    arguments, says = TABLE[name]
    before, began = contents(folder), time.monotonic()
    found = typed(folder, *arguments)
    assert says in found.err
    assert (found.code, found.out) == (2, "")
    assert contents(folder) == before
    assert time.monotonic() - began < SOON
    if USAGE not in found.err and not found.err.startswith("╭"):
        assert_sentence(found)


def assert_sentence(found: Typed) -> None:
    sentence = found.err.removesuffix("\n")
    assert sentence.startswith("fedspd: ")
    assert sentence.isprintable()
    assert sentence[-1] in ".?"
    assert re.search(r"\bgot\b|\bunknown\b|\bneeds\b|is not valid TOML", sentence)


def test_the_table_has_at_least_400_entries() -> None:
    assert len(TABLE) >= 400
