"""Whatever is typed wrong: exit code 2, one sentence with what was expected and got, nothing written, and soon."""

import re
import time
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from fedspd.algorithms import METHODS
from fedspd.cli import app
from fedspd.config import Config
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


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("missing.toml", "got 'missing.toml' (No such file or directory); name another one."),
        ("good.csv", "got 'good.csv', by its name a table of records; name another one."),
        ("full", "got 'full' (Is a directory); name another one."),
        ("f-empty.toml", "site.name is needed, got none; set it: the site's name in its ledger and in every report."),
        ("f-unknown.toml", "unknown section [federatoin]; known are site, server, budget, policy, limits."),
        ("c-png.toml", "got 'c-png.toml' (not UTF-8 text); name another one."),
    ],
)
def test_a_check_lists_what_is_wrong_with_a_site_s_file(folder: Path, file: str, says: str) -> None:
    before, found = contents(folder), typed(folder, "deploy", "check", file)
    assert found.out.startswith("BAD  file ")
    assert found.out.endswith(f"{says}\n")
    assert (found.code, found.err) == (2, "")
    assert contents(folder) == before


def test_the_table_has_at_least_800_entries() -> None:
    assert len(TABLE) >= 800


def test_every_command_has_something_typed_wrong() -> None:
    typed_wrong = [words for words, _ in TABLE.values()]
    assert [path for path in _commands(typer.main.get_command(app)) if not _begins(typed_wrong, path)] == []


def test_every_setting_has_something_typed_wrong() -> None:
    words = {word.partition("=")[0] for words, _ in TABLE.values() for word in words}
    sections = {each.name: type(getattr(Config(), each.name)) for each in fields(Config)}
    known = {f"{name}.{key.name}" for name, kind in sections.items() for key in fields(kind)}
    own = {f"algorithm.{name}" for method in METHODS.values() for name in method.keys}
    assert sorted((known | own) - words - {"algorithm.settings", "data.source"}) == []


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    within = getattr(command, "commands", None)
    if within is None:
        yield path
    else:
        for name, one in within.items():
            yield from _commands(one, (*path, name))


def _begins(typed_wrong: list[list[str]], path: tuple[str, ...]) -> bool:
    return any(tuple(words[: len(path)]) == path for words in typed_wrong)
