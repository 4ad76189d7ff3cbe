"""The tables of docs/deploy.md are what the program reads: every setting with its default and its meaning."""

import json
import re
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

from fedspd.deploy.server.settings import Deploy
from fedspd.deploy.site.settings import PROVED, SECTIONS

PAGE = Path(__file__).parents[2] / "docs" / "federation.md"


def described(header: str) -> list[list[str]]:
    """The rows under the table with this header."""
    _, found, rest = PAGE.read_text(encoding="utf-8").partition(f"\n{header}\n")
    assert found, f"{PAGE} has no table {header}"
    lines = rest.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def declared(sections: dict[str, Any]) -> list[list[str]]:
    """The rows as they must be."""
    return [
        [f"`{section}.{key.name}`", default_of(key), key.metadata["doc"]]
        for section, kind in sections.items()
        for key in fields(kind)
    ]


def default_of(key: Field[Any]) -> str:
    """A default as TOML has it; some keys have none."""
    return "needed" if key.metadata.get("needed") else f"`{json.dumps(key.default)}`"


@pytest.mark.parametrize(
    ("header", "sections"),
    [("| Setting | Default | Meaning |", {"deploy": Deploy}), ("| Key | Default | Meaning |", SECTIONS)],
    ids=["of a run", "of a site"],
)
def test_the_table_names_every_setting_with_its_default_and_no_other(header: str, sections: dict[str, Any]) -> None:
    expected = declared(sections)
    paste = "\n".join(f"| {' | '.join(row)} |" for row in expected)
    assert described(header) == expected, f"{PAGE}: paste this table\n{paste}"


def test_the_methods_that_a_site_may_allow_are_named() -> None:
    named = re.search(r"`policy\.methods` may hold (.*?)\.", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert named is not None
    assert tuple(re.findall(r"`([a-z-]+)`", named[1])) == PROVED
