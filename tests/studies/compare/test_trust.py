"""Rows that trust somebody say whom, in numbers of their own runs: on the page, under charts and in the documents."""

import sys
from dataclasses import replace
from pathlib import Path
from runpy import run_path

import pytest

from fedspd.studies.compare import Cell, Entry, comparison_study
from fedspd.studies.compare.trust import relied_on
from fedspd.studies.folder import save_study
from fedspd.studies.lineup import EACH_UPLOAD, OURS, SECURE_SUMS, TRUSTED_SERVER
from tests.studies.made import CENTRAL, entry

SCRIPT = Path(__file__).parents[3] / "scripts" / "write_results.py"
ALONE = {0.1: [0.987654, 0.98], 3.0: [41.6, 41.6759]}
SENTENCE = (
    f"{SECURE_SUMS}: against a server, honest or not, that sees sums of cohorts only, if at most 13 of the 100 (a sum "
    "holds 80 or more) members of a cohort collude and the cryptography of secure sums holds. Without these "
    "assumptions, by a client's own noise alone, with delta 1e-05: 0.98766 where epsilon is 0.1, 41.676 where epsilon "
    f"is 3. {TRUSTED_SERVER}: against everybody but the server."
)


def summed(epsilon: float) -> Entry:
    made = entry(Cell("iid", "full", epsilon, SECURE_SUMS), [0.84, 0.842])
    results = (
        replace(one, summary=replace(
            one.summary, trust="secure-sums", members=100, threshold=80, colluders=13, epsilon_alone=alone
        ))
        for one, alone in zip(made.results, ALONE[epsilon], strict=True)
    )  # fmt: skip
    return replace(made, results=tuple(results))


def entries() -> list[Entry]:
    others = (OURS, "DP-SGD", EACH_UPLOAD, TRUSTED_SERVER)
    plain = [entry(Cell("iid", "full", epsilon, name), [0.8, 0.81]) for epsilon in ALONE for name in others]
    return [*plain, *(summed(epsilon) for epsilon in ALONE)]


def test_a_comparison_excepts_rows_that_trust_somebody_and_says_what_they_rest_on_at_each_budget() -> None:
    study = comparison_study(entries(), [CENTRAL], 2)
    general, relied, *_ = study.page.privacy
    assert "the server included (but for rows that trust somebody, see below)" in general
    assert relied.startswith(SENTENCE)
    (chart,) = study.figures["accuracy-trust-adult"]
    assert chart.note == SENTENCE
    (on_page,) = [one for section in study.page.sections for one in section.charts if "kinds of trust" in one.title]
    assert on_page.note == SENTENCE


def test_a_comparison_in_which_nobody_is_trusted_excepts_nobody() -> None:
    plain = [entry(Cell("iid", "full", 1.0, name), [0.8, 0.81]) for name in (OURS, "DP-SGD")]
    assert relied_on(plain) == ""
    assert "the server included. The budget" in comparison_study(plain, [CENTRAL], 2).page.privacy[0]


def test_the_page_of_results_has_it_under_the_figures_of_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    (tmp_path / "study").mkdir()
    save_study(comparison_study(entries(), [CENTRAL], 2), tmp_path / "study")
    page = tmp_path / "docs" / "results.md"
    page.write_text(
        "".join(
            f"<!-- {name} --><!-- end of {name} -->" for name in ("trust", "figures", "classes", "accuracy", "behind")
        )
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["write_results.py", "--comparison", "study"])
    run_path(str(SCRIPT), run_name="__main__")
    beside = page.read_text().partition("<!-- trust -->")[2].partition("<!-- end of trust -->")[0]
    assert beside.strip().endswith(f"(figures/accuracy-trust-adult.png)\n\n{SENTENCE}")
