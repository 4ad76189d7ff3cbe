"""The page of dependencies and licenses is what is installed, and what the project asks for."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.write_dependencies import EXTRAS, PAGE, ROOT, packages, page

COPYLEFT = re.compile(r"\bA?L?GPL|General Public", re.IGNORECASE)


def test_every_installed_dependency_stands_on_the_page_with_its_license() -> None:
    text = PAGE.read_text()
    assert [line for line in page(packages()).splitlines() if line not in text.splitlines()] == [], (
        "run python scripts/write_dependencies.py"
    )


def test_the_page_names_what_the_project_asks_for_and_nothing_else_under_each_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {"": project["dependencies"], **project["optional-dependencies"]}
    assert {*asked} == {"", *EXTRAS}
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    for (extra, needed), section in zip(sorted(asked.items()), sections, strict=True):
        assert section.startswith(f"`fedspd[{extra}]`" if extra else "`fedspd`")
        named = re.findall(r"^\| (\S+) \| fedspd \|", section, re.MULTILINE)
        assert sorted(named) == sorted(canonicalize_name(Requirement(text).name) for text in needed)


def test_no_dependency_is_under_a_license_of_the_gpl_family() -> None:
    assert [row for rows in packages().values() for row in rows.values() if COPYLEFT.search(row.license)] == []
