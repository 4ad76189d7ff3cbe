"""The documents are true: their programs run, their numbers come out, their links lead somewhere."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import MISSING, fields
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import fedspd
from fedspd.algorithms import METHODS, Algorithm
from fedspd.config import describe
from fedspd.config.sections import SECTIONS
from fedspd.results import ABOUT, COLUMNS, Summary

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fedspd"
PAGES = {path.relative_to(ROOT).as_posix(): path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]}
SLOW = {"README.md", "docs/reading-the-paper.md"} | {
    f"docs/how-to/{name}.md"
    for name in (
        "compare-methods",
        "make-a-report",
        "reproduce-the-paper",
        "run-fast",
        "train-on-your-own-table",
    )
}
LENGTHY = {f"docs/how-to/{name}.md" for name in ("measure-a-model", "private-run", "run-folder", "sweep")}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    content: str
    line: int  # of its first line of content
    expected: str | None  # the text block that quotes what it prints


def blocks(path: Path) -> Iterator[Block]:
    """Blocks in order; a text block under the same heading as a program before it quotes the program's output."""
    text = path.read_text()
    found = list(FENCE.finditer(text))
    for match, after in zip_longest(found, found[1:]):
        quoted = after and after[1] == "text" and not re.search("^#", text[match.end() : after.start()], re.MULTILINE)
        line = text.count("\n", 0, match.start()) + 2
        yield Block(match[1], match[2], line, after[2] if after and quoted else None)


def prose(path: Path) -> str:
    """A page without its blocks and inline code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", path.read_text()))


def table(page: str, header: str) -> list[list[str]]:
    """Cells of all rows under every table with this header, code marks removed."""
    rows: list[list[str]] = []
    inside = False
    for line in PAGES[page].read_text().splitlines():
        inside = line.startswith(header) or (inside and line.startswith("|"))
        if inside and not line.startswith((header, "|-", "|:")):
            cells = re.split(r"(?<!\\)\|", line.strip("|"))
            rows.append([cell.strip().replace("\\|", "|").replace("`", "") for cell in cells])
    assert rows, f"{page} has no table {header}"
    return rows


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all pages, so that an optimum is solved once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def elsewhere(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run a page in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(METHODS, "_brought", {})  # what a page registers is not handed to processes of later tests
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run_python(block: Block, page: str, namespace: dict[str, Any]) -> str:
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile("\n" * (block.line - 1) + block.content, page, "exec"), namespace)
    return printed.getvalue()


def run_console(block: Block, page: str) -> str:
    """Run the lines `$ fedspd ...` with the installed command; of `$ make ...` only the target must exist."""
    printed = ""
    for line in re.sub(r"\\\n\s*", " ", block.content).splitlines():
        command = shlex.split(line.removeprefix("$ "), comments=True) if line.startswith("$ ") else []
        if command and command[0] == "make":
            assert set(command[1:]) <= targets(), f"{page}: the Makefile has no such target: {line}"
        elif command:
            assert command[0] == "fedspd", f"{page}: only fedspd and make are checked, got {line!r}"
            program = str(Path(sys.executable).with_name("fedspd"))
            done = subprocess.run([program, *command[1:]], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, f"{page}: {line}\n{done.stderr}"
            printed += done.stdout
    return printed


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))


def with_programs() -> list[Any]:
    """Pages with programs; those of many seconds are slow, and some of them left to `make test-all`."""
    pages = sorted(page for page, path in PAGES.items() if [*blocks(path)])
    lengthy = pytest.mark.slow, pytest.mark.lengthy
    return [
        pytest.param(page, marks=lengthy if page in LENGTHY else pytest.mark.slow if page in SLOW else ())
        for page in pages
    ]


@pytest.mark.parametrize("page", with_programs())
def test_every_program_of_a_page_runs_and_prints_what_the_page_says(page: str, elsewhere: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(PAGES[page]):
        if block.language == "python":
            printed = run_python(block, page, namespace)
        elif block.language == "console":
            printed = run_console(block, page)
        else:
            continue
        if block.expected is not None:
            assert printed == block.expected, f"{page}, line {block.line}"


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_link_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(PAGES[page])):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        path = (PAGES[page].parent / name).resolve() if name else PAGES[page]
        assert path.exists(), f"{page} links to {target}, which does not exist"
        if anchor:
            assert anchor in anchors(path), f"{page} links to {target}, which has no such heading"


def anchors(path: Path) -> set[str]:
    """Names that headings get on the usual hosts: lower case, punctuation dropped, spaces to hyphens."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_architecture_tree_names_every_source_file_and_no_other() -> None:
    (tree,) = [block.content for block in blocks(PAGES["docs/architecture.md"]) if block.content.startswith("src/")]
    folders: list[str] = []
    named = set()
    for line in tree.splitlines():
        depth, name = (len(line) - len(line.lstrip())) // 2, line.split()[0]
        folders = folders[:depth]
        if name.endswith("/"):
            folders.append(name)
        else:
            named.add("".join([*folders, name]))
    assert named == source_files()


def source_files() -> set[str]:
    """What git tracks, or where there is no git all files but compiled ones."""
    command = ["git", "-C", str(ROOT), "ls-files", "src/fedspd"]
    tracked = subprocess.run(command, capture_output=True, text=True, check=False) if (ROOT / ".git").exists() else None
    if tracked is not None and tracked.stdout:
        return set(tracked.stdout.split())
    return {p.relative_to(ROOT).as_posix() for p in SOURCE.rglob("*") if p.is_file() and "__pycache__" not in p.parts}


def test_the_layers_in_the_architecture_are_those_the_import_rules_enforce() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    enforced = [layer.replace("fedspd.", "").replace(" | ", ", ") for layer in contract["layers"]]
    assert [row[0] for row in table("docs/architecture.md", "| Layer |")] == enforced


def test_the_contract_in_the_architecture_names_every_function_of_the_protocol() -> None:
    described = {re.sub(r"\(.*", "", row[0]) for row in table("docs/architecture.md", "| Function |")}
    functions = {name for name, member in vars(Algorithm).items() if callable(member) and not name.startswith("_")}
    assert described == functions | {"release"}


def test_every_name_in_the_notation_occurs_in_the_file_beside_it() -> None:
    for symbol, name, _, _, file in table("docs/notation.md", "| Symbol |"):
        assert (SOURCE / file).exists(), f"{symbol}: no file {file}"
        assert re.search(rf"\b{name}\b", (SOURCE / file).read_text()), f"{symbol}: {file} has no {name}"


def test_the_table_of_settings_is_what_the_program_says() -> None:
    page = "docs/how-to/write-a-configuration.md"
    expected = [[name, default or "–", meaning] for name, default, meaning in describe()]
    lines = [f"| `{n}` | {d if d == '–' else f'`{d}`'} | {m.replace('|', chr(92) + '|')} |" for n, d, m in expected]
    assert table(page, "| Setting |") == expected, f"{page}: paste this table\n" + "\n".join(lines)


def test_the_columns_of_a_history_are_described_with_their_kind() -> None:
    described = {row[0]: row[1] for row in table("docs/how-to/run-folder.md", "| Column |")}
    assert described == COLUMNS


def test_the_keys_of_a_summary_are_described_as_the_record_declares_them() -> None:
    page = "docs/how-to/run-folder.md"
    declared = [(field.name, ABOUT[field.name]) for field in fields(Summary)]
    expected = [[name, about.kind, about.unit or "–", about.rounding, about.meaning] for name, about in declared]
    lines = [f"| `{name}` | {' | '.join(rest)} |" for name, *rest in expected]
    assert table(page, "| Key |") == expected, f"{page}: paste this table\n" + "\n".join(lines)


def test_the_files_and_the_summary_of_a_run_folder_are_described(elsewhere: Path) -> None:
    page = "docs/how-to/run-folder.md"
    keys, always = (
        {row[0] for row in table(page, "| Key |")},
        {key.name for key in fields(Summary) if key.default is MISSING},
    )
    files = {row[0] for row in table(page, "| File |")}
    for preset, others in (("proved", set()), ("published", {"ledger.sqlite"})):
        command = f"$ fedspd run {preset} --out {preset} --set run.rounds=1 --set metrics.criterion=false"
        run_console(Block("console", command, 1, None), page)
        assert always < set(json.loads((elsewhere / preset / "summary.json").read_text())) < keys
        assert files - others == {path.name for path in (elsewhere / preset).iterdir()}


def test_all_33_open_places_of_the_paper_are_settled_once_each() -> None:
    numbers = Counter(int(row[0]) for row in table("docs/reading-the-paper.md", "| # |"))
    assert numbers == Counter(range(1, 34))


def test_every_test_and_every_planted_bug_that_the_documents_name_exists() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for page, path in PAGES.items():
        unknown = {
            name for name in re.findall(r"`(test_[a-z0-9_]{25,})`", path.read_text()) if f"def {name}(" not in sources
        }
        assert not unknown, f"{page} names tests that do not exist: {sorted(unknown)}"
    planted = (ROOT / "tests" / "test_planted_bugs.py").read_text()
    named = {bug for row in table("docs/proofs/tests.md", "| Claim |") for bug in row[5].split("; ") if bug[0] != "–"}
    assert named == set(re.findall(r'^    "([^"]+)": \($', planted, re.MULTILINE))


def test_every_setting_that_a_page_names_exists() -> None:
    known = {name for name, _, _ in describe()}
    named = re.compile(rf"(?:`|--set |\")((?:{'|'.join(SECTIONS)})\.(?!png|json|md|query|settle|merge)[a-z_]+)")
    for page, path in PAGES.items():
        unknown = set(named.findall(path.read_text())) - known - {"run.round"}  # a mistake on purpose
        assert not unknown, f"{page} names settings that do not exist: {sorted(unknown)}"


def test_every_make_target_is_described_for_contributors() -> None:
    described = {row[0].removeprefix("make ") for row in table("CONTRIBUTING.md", "| Target |")}
    assert described == targets()


def test_the_version_to_cite_is_the_version_installed() -> None:
    assert f"version: {fedspd.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert fedspd.__version__ in (ROOT / "CHANGELOG.md").read_text()
