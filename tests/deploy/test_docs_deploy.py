"""The pages about deployment are true: their tables are the program's, and their commands are run as they stand."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tomli_w
import typer

from fedspd.cli import app
from fedspd.deploy.flower import TESTED
from fedspd.deploy.protocol import terms
from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.protocol.messages import VERSION
from fedspd.deploy.server import door, link
from fedspd.deploy.server import settings as federation_settings
from fedspd.deploy.setup import check
from fedspd.deploy.setup.init import MOST_SITES
from fedspd.deploy.setup.join import join
from fedspd.deploy.site import connection
from fedspd.deploy.site import settings as site_settings
from fedspd.deploy.site.settings import PROVED
from fedspd.errors import InputError
from tests.support.deploy.live import FEDSPD, Live, unpacked
from tests.support.deploy.processes import free_port, wait_until
from tests.support.deploy.sites import SCHEMA

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "deploy.md"
SOURCE = ROOT / "src" / "fedspd" / "deploy"
ROLES = {path.stem: path for path in sorted((ROOT / "docs" / "deploy").glob("*.md"))}
LINES = 67  # of a printed page
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


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
    if key.metadata.get("needed"):
        return "needed"
    return "none" if key.default is None else f"`{json.dumps(key.default)}`"


@pytest.mark.parametrize(
    ("header", "sections"),
    [
        ("| Setting | Default | Meaning |", federation_settings.SECTIONS),
        ("| Key | Default | Meaning |", site_settings.SECTIONS),
    ],
    ids=["federation.toml", "site.toml"],
)
def test_the_table_names_every_setting_with_its_default_and_no_other(header: str, sections: dict[str, Any]) -> None:
    expected = declared(sections)
    paste = "\n".join(f"| {' | '.join(row)} |" for row in expected)
    assert described(header) == expected, f"{PAGE}: paste this table\n{paste}"


def test_the_methods_that_a_site_may_allow_are_named() -> None:
    named = re.search(r"`policy\.methods` may hold (.*?)\.", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert named is not None
    assert tuple(re.findall(r"`([a-z-]+)`", named[1])) == PROVED


def test_the_settings_of_a_simulation_that_are_refused_are_named() -> None:
    named = re.search(
        r"have no effect between sites are refused: (.*?), which the schema says", PAGE.read_text(), re.DOTALL
    )
    assert named is not None
    assert re.findall(r"`([a-z_.]+)`", named[1]) == list(terms.NOT_HERE)


def test_the_numbers_that_the_pages_name_are_those_of_the_code() -> None:
    text = " ".join(" ".join(path.read_text() for path in (PAGE, *ROLES.values())).split())
    for sentence in (
        f"held for up to {link.HOLD_SECONDS:g} seconds, and a site sends a heartbeat every "
        f"{connection.HEARTBEAT_SECONDS / 2:g}",
        f"let in after at most some {2 * connection.HEARTBEAT_SECONDS:g} seconds",
        f"with pauses of up to {connection.LONGEST_PAUSE:g} seconds",
        f"tries again every {connection.LONGEST_PAUSE:g} seconds",
        f"A call may have {door.MOST_BYTES // 2**20} MiB",
        f"writes up to {MOST_SITES} sites",
        f"from {check.SOON} days before its end",
        f"a version of their own, now {VERSION}.",
        f"Flower must be {' or '.join(TESTED)}, exactly",
        f"Flower {' or '.join(TESTED)} only",
    ):
        assert sentence in text, sentence
    assert len(door.CALLS) == 8, "the pages say eight"


class Refused(NamedTuple):
    """A refusal as it stands in the code: its words, and whether it is for good."""

    words: str
    final: bool


def refusals() -> Iterator[Refused]:
    """Every refusal whose words stand in the code; what is not known before is three dots."""
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        named = {
            target.id: words_of(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "Refusal":
                continue
            final = not any(word.arg == "final" and ast.unparse(word.value) == "False" for word in call.keywords)
            for name in [node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name)]:
                if named.get(name):
                    yield Refused(str(named[name]), final)
            if words := words_of(call.args[0]):
                yield Refused(words, final)


def words_of(node: ast.expr) -> str | None:
    """The text of a literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(words_of(part) or "..." for part in node.values)
    return None


def test_every_refusal_of_a_site_is_in_the_table_with_its_words_and_no_other() -> None:
    rows = described("| A site refuses | and says, among other words | When | |")
    known, missing = list(refusals()), set(refusals())
    source = " ".join("".join(path.read_text() for path in sorted(SOURCE.parent.rglob("*.py"))).split())
    for _, quoted, _, lasts in rows:
        for words in re.findall(r'"([^"]+)"', quoted):
            found = [refusal for refusal in known if words in refusal.words]
            assert {refusal.final for refusal in found} <= {lasts == "for good"}, f"{words}: {lasts}"
            missing -= set(found)
            # Some are passed on from where terms are read, or from any mistake: those stand in the code all the same.
            assert found or words in source, f"no site says: {words}"
    assert not missing, f"{PAGE}: not in the table of refusals"


def test_what_is_left_where_masks_fail_is_said_of_shared_noise_by_itself() -> None:
    """Every upload that has all of its noise keeps epsilon; a share of it keeps the second number only."""
    alone, shared = '`privacy.trust = "each-upload"`', '`privacy.trust = "secure-sums"`'
    rows = described(f"| | masks alone, {alone} | noise shared, {shared} |")
    _, (_, beyond, less), (_, _, forged) = rows
    assert "ε and δ hold all the same" in beyond
    for cell in (less, forged):
        assert cell.startswith("**ε does not hold")
        assert "ε alone" in cell
    assert PAGE.read_text(encoding="utf-8").count("hold all the same") == 1


@pytest.mark.parametrize("role", ROLES)
def test_a_page_for_one_role_fits_on_one_printed_page(role: str) -> None:
    assert len(ROLES[role].read_text().splitlines()) <= LINES


def test_every_command_that_a_page_names_in_its_text_exists_with_its_options() -> None:
    for path in (PAGE, *ROLES.values(), ROOT / "README.md"):
        for command in re.findall(r"`(fedspd (?:deploy|ledger)[^`]*)`", BLOCK.sub("", path.read_text())):
            found: Any = typer.main.get_command(app)
            for word in shlex.split(command)[1:]:
                if word in getattr(found, "commands", {}):
                    found = found.commands[word]
                elif word.startswith("--"):
                    assert word in {option for given in found.params for option in given.opts}, f"{path}: {command}"
            assert not hasattr(found, "commands"), f"{path}: {command}"


class Pages:
    """The commands of the role pages, run where they belong; those of a block are run together.

    Args:
        folder: for everything.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.other, self.operator = folder / "other", folder / "operator"
        self.homes = {name: folder / name / name for name in ("north", "south")}
        for made in (self.other, self.operator, *(home.parent for home in self.homes.values())):
            made.mkdir()
        self.here = {"fl.example.org": "localhost", "9092": str(free_port()), "/mnt/other": str(self.other)}
        self.left = {role: [found[2] for found in BLOCK.finditer(ROLES[role].read_text())] for role in ROLES}
        self.processes = Live(self.operator / "wards", list(self.homes.values()))

    def block(self, role: str, kind: str, words: str) -> str:
        """The block of a page that has these words, with the names of this machine in it."""
        content = ROLES[role].read_text()
        (text,) = [found[2] for found in BLOCK.finditer(content) if found[1] == kind and words in found[2]]
        if text in self.left[role]:
            self.left[role].remove(text)
        for name, value in self.here.items():
            text = text.replace(name, value)
        return text

    def run(self, role: str, words: str, where: Path, answer: str = "", other: str | None = None) -> str:
        """Run a block as a script; what it prints. Another site may stand in for the page's."""
        script = self.block(role, "sh", words)
        script = script.replace("north", other) if other else script
        done = subprocess.run(
            ["bash", "-ec", script], cwd=where, input=answer, capture_output=True, text=True, check=False, timeout=120,
            env=self.environment,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, role: str, words: str, where: Path, name: str) -> None:
        """Start the one command of a block."""
        script = self.block(role, "sh", words)
        assert len(script.splitlines()) == 1
        command = [FEDSPD, *shlex.split(script)[1:]]
        self.processes.start(name, ["sh", "-c", 'cd "$0" && exec "$@"', str(where), *command])

    def change(self, role: str, words: str, file: Path) -> None:
        """Put the settings of a block into a file, as a person does with an editor."""
        for section, keys in tomllib.loads(self.block(role, "toml", words)).items():
            for key, value in keys.items():
                edit(file, section, key, value)

    @property
    def north(self) -> Path:
        """The site of the pages' examples."""
        return self.homes["north"]

    @property
    def federation(self) -> Path:
        """The operator's file."""
        return self.operator / "wards" / "federation.toml"

    @property
    def environment(self) -> dict[str, str]:
        """With the command of this environment."""
        return {**os.environ, "PATH": f"{Path(FEDSPD).parent}:{os.environ['PATH']}", "COLUMNS": "200"}

    def says(self, name: str, words: str, seconds: float = 60) -> None:
        """Wait until a process has printed something."""
        assert wait_until(lambda: words in self.processes.log(name), seconds), self.processes.log(name)


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    made = Pages(tmp_path)
    try:
        yield made
    finally:
        made.processes.stop()


def set_up(pages: Pages) -> None:
    """As the pages for a server, for a site and for who signs for it say."""
    operate, site = "operate-a-server", "run-a-site"
    (pages.operator / "schema.toml").write_text(SCHEMA)
    pages.run(operate, "deploy init wards", pages.operator)
    pages.change(operate, "[privacy]", pages.federation)
    for place, (name, home) in enumerate(pages.homes.items()):
        shutil.copy(pages.operator / "wards" / "kits" / f"{name}.tar.gz", home.parent)
        pages.run(site, "tar xf", home.parent, other=name)
        (home / "records.csv").write_text(records(300 + place, place))
        if name == "north":
            pages.change("sign-for-a-site", "witness", home / "site.toml")
        assert "read the fingerprint out by phone" in pages.run(site, "deploy join", home)
        shutil.copy(home / "site.key.pub", pages.operator / f"{name}.pub")
    assert "Compare it" in pages.run(operate, "deploy add wards/federation.toml north", pages.operator)
    for home in pages.homes.values():
        shutil.copy(pages.operator / "wards" / "members.toml", home)
    by_rule = pages.federation.read_text()
    pages.federation.write_text(
        re.sub("^rounds_at_most = .*$", "rounds = 40", by_rule, flags=re.MULTILINE)
    )  # can be stopped


def first_run(pages: Pages) -> None:
    """Checked, stopped before it began, confirmed, finished."""
    operate, site = "operate-a-server", "run-a-site"
    pages.start(operate, "deploy server wards/federation.toml\n", pages.operator, "server")
    pages.says("server", "listening on")
    for name, home in pages.homes.items():
        assert "BAD" not in pages.run(site, "deploy check", home)
        pages.start(site, "deploy site", home, name)
    pages.says("server", "has yet to confirm the run")
    assert "has ended" in pages.run(operate, "deploy stop", pages.operator)
    assert pages.processes.await_end(30) == 130
    pages.start(operate, "deploy server wards/federation.toml\n", pages.operator, "again")
    pages.says("again", "has yet to confirm the run")
    # Whatever the stopped server had asked waits, too.
    assert "privacy.epsilon = 0.3" in pages.run("sign-for-a-site", "deploy approve", pages.north, answer="y\ny\n")
    assert pages.processes.await_end(90, "again") == 0, pages.processes.log("again")
    assert "(0.3, 1e-05)-differential privacy, proved" in pages.run(operate, "deploy report", pages.operator)
    pages.processes.require_books("server")


def books(pages: Pages) -> None:
    """What was spent, a copy of it, and what is compared by phone."""
    site, sign = "run-a-site", "sign-for-a-site"
    assert "wards-" in pages.run(site, "ledger show", pages.north)
    assert "Head: " in pages.run(sign, "ledger verify", pages.north)
    assert pages.run(site, "cp ledger.db", pages.north).startswith("Intact")
    prints = pages.run(sign, "deploy members", pages.north)
    keys = [read_identity(home / "site.key").public.fingerprint for home in pages.homes.values()]
    assert re.findall(r"SHA256:\S+", prints) == keys


def second_run(pages: Pages) -> None:
    """Stopped on its way, before certificate and key are replaced; `go_on` finishes it."""
    pages.start("operate-a-server", "federation.folder=second", pages.operator, "second")
    pages.says("second", "has yet to confirm the run")
    pages.run("sign-for-a-site", "deploy approve", pages.north, answer="y\n")
    pages.says("second", "round 1 of 40")
    assert pages.processes.ask_to_end("second") == 130
    assert "stopped after round" in pages.processes.log("second")
    for name in pages.homes:
        assert pages.processes.ask_to_end(name) == 0


def rotate(pages: Pages) -> None:
    """A new certificate for the server, and a new key for a site."""
    page, before = "upgrade-and-rotate", (pages.operator / "wards" / "keys" / "server.pem").read_text()
    pages.run(page, "deploy renew wards/federation.toml --host", pages.operator)
    assert (pages.operator / "wards" / "keys" / "server.pem").read_text() == before
    for home in pages.homes.values():
        shutil.copy(pages.operator / "wards" / "keys" / "next" / "both.pem", home)
        pages.run(page, "cp both.pem", home)
    pages.run(page, "--switch", pages.operator)
    assert (pages.operator / "wards" / "keys" / "server.pem").read_text() != before
    old = read_identity(pages.north / "site.key").public
    pages.run(page, "mv site.key", pages.north)
    assert read_identity(pages.north / "site.key").public != old
    shutil.copy(pages.north / "site.key.pub", pages.operator / "north.pub")
    pages.run("operate-a-server", "deploy add wards/federation.toml north", pages.operator)
    for home in pages.homes.values():
        shutil.copy(pages.operator / "wards" / "members.toml", home)


def go_on(pages: Pages) -> None:
    """The second run to its end, under the new certificate and key; north has confirmed it already."""
    pages.start("operate-a-server", "federation.folder=second", pages.operator, "rest")
    for name, home in pages.homes.items():
        pages.start("run-a-site", "deploy site", home, name)
    assert pages.processes.await_end(120, "rest") == 0, pages.processes.log("rest")
    assert "goes on after round" in pages.processes.log("rest")
    assert pages.processes.results("second")["rounds"] == 40
    pages.processes.require_books("server", "second")


def move(pages: Pages) -> None:
    """From the earlier layout: a new archive, the old ledger."""
    place = pages.folder / "moved"
    (place / "earlier").mkdir(parents=True)
    shutil.copy(pages.north / "ledger.db", place / "earlier")
    home = unpacked(pages.operator / "wards" / "kits" / "north.tar.gz", place)
    told = pages.run("upgrade-and-rotate", "../earlier/ledger.db", home)
    assert "ledger: ledger.db is there" in told
    assert "store: store.db made" in told
    (looked,) = [one for one in check.check_site(home / "site.toml") if one.what == "ledger"]
    assert looked.good
    assert not looked.told.startswith("0 rows")


@pytest.mark.deploy
def test_every_command_of_the_role_pages_does_what_its_page_says(pages: Pages) -> None:
    for part in (set_up, first_run, books, second_run, rotate, go_on, move):
        part(pages)
    assert pages.left == {role: [] for role in ROLES}, "these were not run"


def test_a_site_that_lost_a_file_is_helped_as_the_page_says(tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text(SITE_FILE)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "records.csv").write_text(records(300, 0))
    said: list[str] = []
    join(site, said.append)

    def ledger() -> check.Checked:
        return next(one for one in check.check_site(site) if one.what == "ledger")

    assert ledger().good
    for lost, helps in (("ledger.db", False), ("store.db", True), ("witness", True)):
        kept = (tmp_path / lost).read_bytes()
        (tmp_path / lost).unlink()
        assert not ledger().good, lost
        if helps:
            join(site, said.append)
        else:
            with pytest.raises(InputError, match="the ledger was lost"):
                join(site, said.append)
            (tmp_path / lost).write_bytes(kept)
            (tmp_path / lost).chmod(0o600)
        assert ledger().good, lost


def edit(file: Path, section: str, key: str, value: Any) -> None:
    """Change one line of a TOML file, or add it at the head of its section."""
    before, header, rest = re.split(rf"^(\[{section}\].*\n)", file.read_text(), maxsplit=1, flags=re.MULTILINE)
    body, bracket, after = rest.partition("\n[")
    line = tomli_w.dumps({key: value}).strip()
    changed, times = re.subn(rf"^{key} = .*$", line, body, flags=re.MULTILINE)
    file.write_text(before + header + (changed if times else f"{line}\n{body}") + bracket + after)


def records(rows: int, seed: int) -> str:
    """A table under the small schema of these tests."""
    rng = np.random.default_rng(seed)
    lines = ["age,income,color,bought"]
    for _ in range(rows):
        numbers = rng.integers(18, 90), rng.integers(0, 50000)
        lines.append(",".join(map(str, (*numbers, rng.choice(["red", "green", "blue"]), rng.choice(["no", "yes"])))))
    return "\n".join(lines) + "\n"


SITE_FILE = """
[site]
name = "north"
data = "records.csv"
schema = "schema.toml"
witness = "witness"

[budget]
epsilon = 1.0
delta = 1e-5
"""
