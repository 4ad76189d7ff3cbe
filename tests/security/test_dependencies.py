"""The page of dependencies and licenses is what is installed, and what the project asks for."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires

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


def test_the_package_imports_nothing_that_it_does_not_ask_for_itself() -> None:
    """What comes with a dependency is gone with its next release; `deploy` may use what its exact Flower brings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [
        *project["dependencies"],
        *(text for extra in project["optional-dependencies"].values() for text in extra),
    ]
    known = {canonicalize_name(Requirement(text).name) for text in needed}
    flowers = {canonicalize_name(Requirement(text).name) for text in requires("flwr") or ()}
    owners = packages_distributions()
    imported = {
        (module, path.relative_to(ROOT / "src/fedspd"))
        for path in (ROOT / "src/fedspd").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for module in _modules(node)
        if module not in sys.stdlib_module_names and module != "fedspd"
    }
    assert {module for module, _ in imported} >= {"numpy", "typer", "flwr", "jax"}
    assert [
        (module, str(path))
        for module, path in sorted(imported)
        if not (known | (flowers if path.parts[0] == "deploy" else set()))
        & {canonicalize_name(name) for name in owners.get(module, [module])}
    ] == []


def _modules(node: ast.AST) -> list[str]:
    """The packages that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module.partition(".")[0]]
    return []
