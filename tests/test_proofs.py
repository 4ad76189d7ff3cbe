"""The proofs are complete: no lemma, method, symbol or function that they name is missing, and they can be printed."""

import ast
import re
from pathlib import Path

import pytest

from fedspd.algorithms import METHODS
from fedspd.privacy.rounding import SAFETY
from scripts import proofs_pdf

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fedspd"
PAGES = [ROOT / "docs" / "proofs.md", *sorted((ROOT / "docs" / "proofs").glob("*.md"))]
NAMED = re.compile(r"((?:`[A-Za-z_.]+`(?:, | and ))*`[A-Za-z_.]+`) in\s+`([a-z_/]+\.py)`")


def names_of(path: Path) -> set[str]:
    """Functions, classes, methods and constants that a file defines."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_function_that_a_proof_names_is_in_the_file_it_names(page: Path) -> None:
    for names, file in NAMED.findall(page.read_text()):
        assert (SOURCE / file).is_file(), f"{page.name} names {file}, which does not exist"
        for name in re.findall(r"`([^`]+)`", names):
            assert name.split(".")[-1] in names_of(SOURCE / file), f"{page.name}: {file} has no {name}"


def instances() -> list[list[str]]:
    """Rows of the table of methods."""
    text = (ROOT / "docs" / "proofs.md").read_text()
    return [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| `[a-z-]+` \|", line)]


def test_every_proved_method_is_an_instance_of_the_theorem_and_no_other_is() -> None:
    proved = {name for name in METHODS if METHODS[name].guarantee == "proved"}
    assert {row[0].strip("`") for row in instances()} == proved


def test_every_instance_names_a_function_for_its_conditions_and_a_lemma_for_its_sensitivity() -> None:
    lemmas = set(numbered())
    for row in instances():
        assert len(row) == 7, row
        assert NAMED.search(row[5]), f"{row[0]} names nothing that checks it"
        assert {int(number) for number in row[6].split(", ")} <= lemmas


def numbered() -> list[int]:
    return [int(found) for page in PAGES for found in re.findall(r"\*\*Lemma (\d+) \(", page.read_text())]


def test_lemmas_are_numbered_without_gaps_each_once_and_each_has_a_proof() -> None:
    assert sorted(numbered()) == list(range(1, 24))
    for page in PAGES:
        parts = re.split(r"\*\*Lemma \d+ \(", page.read_text())[1:]
        assert all("*Proof" in part and "∎" in part for part in parts), f"{page.name}: a lemma without a proof"


LETTERED = re.compile(r"\b(?:Theorem|Lemma)\s[A-Z]\d+\b")


def test_theorems_are_told_apart_by_their_names_on_all_pages() -> None:
    pages = [*PAGES, ROOT / "docs" / "accounting.md"]
    named = [
        name for page in pages for name in re.findall(r"^\*\*(Theorem \w+|Lemma [A-Z]\w+)", page.read_text(), re.M)
    ]
    assert len(named) > 15
    assert len(named) == len(set(named)), sorted(name for name in named if named.count(name) > 1)
    assert all(re.search(r"[A-Z]\d$", name) for name in named), named
    for file in [*(ROOT / "docs").rglob("*.md"), *SOURCE.rglob("*.py")]:
        for name in LETTERED.findall(file.read_text()):
            assert " ".join(name.split()) in named, f"{file.name} speaks of {name}, which is nowhere"


def rows_of_signs() -> list[tuple[list[str], str]]:
    """Each row's signs and what it says they mean."""
    text = (ROOT / "docs" / "notation.md").read_text().split("## In the proofs")[1]
    rows = re.findall(r"^\| (\$.+?) \| (.+?) \|", text, re.MULTILINE)
    return [(re.findall(r"\$([^$]+)\$", signs), meaning) for signs, meaning in rows]


def ambiguous(rows: list[tuple[list[str], str]]) -> list[str]:
    """Signs in several rows, or in one row with more meanings than signs."""
    signs = [sign for row, _ in rows for sign in row]
    twice = {sign for sign in signs if signs.count(sign) > 1}
    return sorted(twice | {row[0] for row, meaning in rows if len(meaning.split(";")) > len(row)})


def test_no_sign_has_two_meanings() -> None:
    assert len(rows_of_signs()) > 30
    assert not ambiguous(rows_of_signs())


def test_a_sign_with_two_meanings_in_one_row_is_found() -> None:
    assert ambiguous([*rows_of_signs(), (["h_0"], "honest members; the step of a grid")]) == ["h_0"]


def test_a_guide_has_two_pages_and_no_page_of_proofs_more_than_450_lines() -> None:
    guide = (ROOT / "docs" / "privacy.md").read_text()
    assert len(guide.splitlines()) <= 110
    assert len(guide.split()) <= 1250
    assert all(len(page.read_text().splitlines()) <= 450 for page in PAGES)


def test_a_factor_of_5_5_covers_the_count() -> None:
    """Lemma 16: what neighbors need of G, in units of u Q n / (b (gamma + rho)), for many sizes."""
    for records in (1, 2, 10, 1000, 10**7):
        for columns in (1, 3, 81, 10**4):
            for outputs in (1, 2, 10, 1000):
                first_order = 2.06 * (records + columns + outputs + 12)
                longer_rows_and_rounded_scale = (8.8 * (columns + 8) + 8.1) / records
                needed = first_order + longer_rows_and_rounded_scale + 6.2
                assert (
                    needed
                    <= 2 * 5.5 * (records + columns + outputs + 32)
                    <= 2 * SAFETY * (records + columns + outputs + 32)
                )


def test_the_pdf_holds_every_page_and_is_written_within_seconds(tmp_path: Path) -> None:
    proofs_pdf.main(tmp_path / "proofs.pdf")
    written = (tmp_path / "proofs.pdf").read_bytes()
    assert written.startswith(b"%PDF")
    assert len(written) > 300_000


@pytest.mark.parametrize(
    ("latex", "typst"),
    [
        (r"\frac{2G}{b}", "frac(2 G, b)"),
        (r"\tilde x_0", "attach(tilde(x), b: 0)"),
        (r"\mathrm{prox}(v)", 'upright("prox") \\( v \\)'),
        (r"\sqrt d\,g", "sqrt(d) thin g"),
        (r"\arg\min", 'op("arg") op("min")'),
        (r"Z \sim N", "Z tilde.op N"),
        (r"\|x\|", 'class("normal", ‖) x class("normal", ‖)'),
    ],
)
def test_a_formula_is_told_in_the_words_of_typst(latex: str, typst: str) -> None:
    assert proofs_pdf.formula(latex) == typst


def test_a_formula_that_cannot_be_told_is_named() -> None:
    with pytest.raises(SystemExit, match="write it with simpler LaTeX"):
        proofs_pdf.formula(r"\begin{matrix}a & b\end{matrix}")
