"""From run folders and study folders to a report, through the command."""

import csv
import json
import shutil
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fedspd.errors import InputError
from fedspd.report import folders_page, privacy_statement
from fedspd.report.of_runs.folders import folder_names
from fedspd.report.page import Chart, Grid, Measured, Page, Section, Series, to_json
from fedspd.results import read_summary
from tests.support.command import Finished, run_all, run_script

pytestmark = pytest.mark.slow

OUT = ("--quiet", "--out", "run")
LEAN = ("--set", "metrics.criterion=false")
SMALL = ("--set", "run.rounds=3", *OUT)
CASES: dict[str, tuple[str, ...]] = {
    "proved": ("run", *SMALL, *LEAN),
    "published": ("run", "published", "--set", "run.rounds=5", *OUT, *LEAN),
    "without noise": ("run", "published", *SMALL, *LEAN, "--set", "privacy.epsilon=inf"),
    "with criterion": ("run", "published", *SMALL, "--set", "metrics.criterion=true", "--set", "run.seed=1"),
    "one": ("report", "../proved/run", "--out", "one.html"),
    "one json": ("report", "../published/run", "--json"),
    "two": ("report", "../proved/run", "../published/run"),
    "over": ("report", "../proved/run", "../published/run", "--out", "../two/report.html"),
    "nothing": ("report", "../missing"),
    "a file": ("report", "../proved/run/summary.json"),
    "neither": ("report", ".."),
    "twice": ("report", "../proved/run", "../proved/../proved/run"),
    "nowhere": ("report", "../proved/run", "--out", "no/such/folder/page.html"),
    "onto a folder": ("report", "../proved/run", "--out", "."),
    "into a file": ("report", "../proved/run", "--out", "../proved/run/summary.json/page.html"),
    "help": ("report", "--help"),
}
STUDY = Page(
    "Study of methods", ("All of it is proved.",),
    (Section("Curves", (), (Chart("Accuracy", "round", "%", (Series("a", (1.0,), (80.0,)),)),)),
     Section("Numbers", (), (), (Grid("Means", ("method", "accuracy"), (("a", Measured(84.01, 0.06, 2)),)),))),
    (("study", "seeds = 10"),), {"python": "3.11"},
)  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    return run_all(tmp_path_factory.mktemp("reports"), CASES)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "page.json").write_text(to_json(STUDY))
    return folder


def run_of(done: dict[str, Finished], name: str) -> Path:
    return done[name].folder / "run"


def summary_of(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


def statement_of(folder: Path) -> str:
    return privacy_statement(read_summary(folder))


def history_of(folder: Path, column: str) -> list[float]:
    with (folder / "history.csv").open() as file:
        return [float(row[column]) for row in csv.DictReader(file)]


def charts_of(page: Page) -> dict[str, Chart]:
    return {chart.title: chart for section in page.sections for chart in section.charts}


class _Words(HTMLParser):
    """Text of a document outside of its scripts and styles, and every address that it names."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.addresses: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = [tag]
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href", "srcset", "action", "data"}]

    def handle_data(self, data: str) -> None:
        if self.inside not in (["script"], ["style"]):
            self.words.append(data)


def read(path: Path) -> _Words:
    parser = _Words()
    parser.feed(path.read_text())
    return parser


def test_a_report_goes_into_the_folder_of_its_only_run_or_where_it_is_told_to(done: dict[str, Finished]) -> None:
    assert (done["one"].code, done["one"].out, done["one"].err) == (0, "Written to one.html\n", "")
    assert (done["one"].folder / "one.html").is_file()
    assert not (run_of(done, "proved") / "report.html").exists()
    assert json.loads(done["one json"].out) == {"report": "../published/run/report.html"}
    assert (run_of(done, "published") / "report.html").is_file()


def test_a_report_of_several_runs_goes_into_the_current_folder_and_replaces_an_earlier_one(
    done: dict[str, Finished],
) -> None:
    assert done["two"].out == "Written to report.html\n"
    assert done["over"].code == 0
    assert [path.name for path in done["two"].folder.iterdir()] == ["report.html"], "something lies beside it"


def test_a_report_says_the_privacy_statement_before_anything_else(done: dict[str, Finished]) -> None:
    text = "".join(read(done["one"].folder / "one.html").words)
    statement = statement_of(run_of(done, "proved"))
    assert statement in text
    assert text.index(statement) < text.index("Results")


def test_a_statement_says_first_that_a_run_was_simulated_and_what_is_not_covered(done: dict[str, Finished]) -> None:
    """ "Nothing else was computed from records" once stood under an objective that was."""
    summary = read_summary(run_of(done, "proved"))
    statement = privacy_statement(summary)
    assert statement.startswith("A simulation: its noise follows from the seed")
    assert "In this run no client spent more than" in statement
    assert "not covered, and without noise: the objective, ALFV," in statement
    between_sites = privacy_statement(replace(summary, engine="sites", seed=None))
    assert between_sites.startswith("(1, 1e-05)-differential privacy, proved")
    fixed = privacy_statement(replace(summary, engine="sites"))
    assert fixed.startswith(
        "For tests, the server fixed all draws by a seed, and whoever has it can subtract the noise."
    )
    assert between_sites.endswith("nothing else left a site.")


def test_what_was_spent_between_sites_is_said_with_the_condition_that_nobody_checks(done: dict[str, Finished]) -> None:
    """A simulation draws who takes part without looking; a server may look at releases before it asks again."""
    summary, condition = read_summary(run_of(done, "proved")), "whom the server asked depended on what was released"
    assert condition not in privacy_statement(summary)
    assert condition in privacy_statement(replace(summary, engine="sites"))


def test_a_report_holds_tables_configuration_and_environment_without_any_script(done: dict[str, Finished]) -> None:
    folder = run_of(done, "proved")
    text = "".join(read(done["one"].folder / "one.html").words)
    assert f"{100 * summary_of(folder)['test_accuracy']:.3f}"[:5] in text
    assert (folder / "config.toml").read_text() in text
    assert json.loads((folder / "environment.json").read_text())["platform"] in text


def test_a_report_names_no_address_but_places_in_itself(done: dict[str, Finished]) -> None:
    for document in (done["one"].folder / "one.html", done["two"].folder / "report.html"):
        addresses = read(document).addresses
        assert addresses
        assert all(address.startswith("#") for address in addresses)
        assert "default-src 'none'" in document.read_text()


def test_a_run_is_shown_by_its_own_numbers(done: dict[str, Finished]) -> None:
    folder = run_of(done, "proved")
    page = folders_page([folder])
    charts = charts_of(page)
    assert page.title == "Run run"
    assert charts["Test accuracy"].series[0].y == tuple(100 * value for value in history_of(folder, "test_accuracy"))
    assert charts["Augmented Lagrangian (ALFV)"].series[0].y == tuple(history_of(folder, "alfv"))
    shown = {row[0]: row[1] for section in page.sections for grid in section.grids for row in grid.rows}
    assert shown["test accuracy, %"] == 100 * summary_of(folder)["test_accuracy"]
    assert shown["scaling charged"] == "yes"


def measured(page: Page) -> tuple[Section, ...]:
    """The sections of a run after its statement, with which the page opens."""
    return tuple(section for section in page.sections if section.title in ("Results", "Diagnostics"))


def test_every_number_of_a_summary_is_shown_once(done: dict[str, Finished]) -> None:
    folder = run_of(done, "proved")
    summary = summary_of(folder)
    del summary["title"]  # stands where the name would
    rows = [row for section in measured(folders_page([folder])) for grid in section.grids for row in grid.rows]
    single = {key for key, value in summary.items() if not isinstance(value, dict) and key != "convergence"}
    assert len(rows) == len({row[0] for row in rows}) == len(single)


def test_bounds_on_epsilon_are_never_rounded_down(done: dict[str, Finished], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_of(done, "proved"), folder)
    summary = summary_of(folder) | {"epsilon_spent_mean": 0.123412, "epsilon_spent_max": 0.876512}
    (folder / "summary.json").write_text(json.dumps(summary))
    shown = {
        row[0]: row[1] for section in folders_page([folder]).sections for grid in section.grids for row in grid.rows
    }
    assert (shown["epsilon spent mean"], shown["epsilon spent max"]) == (0.1235, 0.8766)


def test_diagnostics_stand_apart_and_are_called_so(done: dict[str, Finished]) -> None:
    folder = run_of(done, "proved")
    results, diagnostics = measured(folders_page([folder]))
    kinds = summary_of(folder)["columns"]
    public = {str(row[0]).replace(" ", "_").lower() for grid in results.grids for row in grid.rows}
    hidden = {str(row[0]).replace(" ", "_").lower() for grid in diagnostics.grids for row in grid.rows}
    assert not {name for name in public if kinds.get(name) == "diagnostic"}
    assert hidden >= {"alfv", "objective", "consensus_error"}
    assert "not cover" in diagnostics.text[0]
    assert all("not covered by the guarantee" in part.note for part in (*diagnostics.charts, *diagnostics.grids))


def test_several_runs_are_drawn_over_each_other_with_a_row_and_a_statement_each(done: dict[str, Finished]) -> None:
    folders = [run_of(done, "proved"), run_of(done, "published")]
    page = folders_page(folders)
    charts = charts_of(page)
    assert [series.name for series in charts["Test accuracy"].series] == ["proved/run", "published/run"]
    assert [len(series.x) for series in charts["Test accuracy"].series] == [3, 5]
    assert [series.name for series in charts["Privacy spent"].series] == [
        "proved/run (proved, delta 1e-05)", "published/run (as published, delta 0.0001)",
    ]  # fmt: skip
    assert [label for label, _ in charts["Test accuracy"].references] == ["majority class"]
    assert page.privacy == tuple(
        f"{name}: {statement_of(folder)}" for name, folder in zip(("proved/run", "published/run"), folders, strict=True)
    )
    assert [name for name, _ in page.configurations] == ["proved/run", "published/run"]
    runs = page.sections[0].grids[0]
    assert [row[0] for row in runs.rows] == ["proved/run", "published/run"]
    assert [row[runs.columns.index("rounds")] for row in runs.rows] == [3, 5]


def test_what_all_runs_share_is_said_once_and_what_differs_stands_in_their_rows(done: dict[str, Finished]) -> None:
    runs, same = folders_page([run_of(done, "proved"), run_of(done, "published")]).sections[0].grids
    assert "unit" in {row[0] for row in same.rows}
    assert "accountant" in runs.columns
    assert not set(runs.columns) & {row[0] for row in same.rows}


def test_a_run_without_noise_says_so_and_has_no_curve_of_epsilon(done: dict[str, Finished]) -> None:
    page = folders_page([run_of(done, "without noise")])
    assert page.privacy == ("No privacy: this run added no noise.",)
    assert charts_of(page)["Privacy spent (none)"].references == ()


def test_the_conditions_of_the_theorem_are_held_against_the_run(done: dict[str, Finished]) -> None:
    folder = run_of(done, "with criterion")
    _, diagnostics = measured(folders_page([folder]))
    (grid,) = [grid for grid in diagnostics.grids if "Theorem" in grid.title]
    conditions = summary_of(folder)["convergence"]["conditions"]
    assert {row[1]: row[2] == "holds" for row in grid.rows} == {name: c["holds"] for name, c in conditions.items()}


def test_a_study_brings_its_own_page_and_is_joined_with_runs(done: dict[str, Finished], study: Path) -> None:
    assert folders_page([study]) == STUDY
    joined = folders_page([study, run_of(done, "proved")])
    assert joined.title == "Run run + Study of methods"
    assert joined.sections[-2:] == tuple(
        replace(part, title=f"Study of methods: {part.title}") for part in STUDY.sections
    )


@pytest.mark.parametrize(
    ("case", "got"),
    [
        ("nothing", "nothing of that name"),
        ("a file", "a file"),
        ("neither", "holds neither"),
        ("twice", "more than once"),
        ("nowhere", "no/such/folder/page.html"),
        ("onto a folder", "name another with --out"),
        ("into a file", "name another with --out"),
    ],
)
def test_what_cannot_be_reported_on_is_one_sentence_and_exit_code_2(
    done: dict[str, Finished], case: str, got: str
) -> None:
    assert (done[case].code, done[case].out) == (2, "")
    assert got in done[case].err
    assert "Traceback" not in done[case].err
    assert not [path for path in done[case].folder.rglob("*") if path.is_file()]
    assert not list(done[case].folder.parent.glob(".*")), "something half written was left"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("history.csv", None),
        ("summary.json", None),
        ("history.csv", "round,alfv\n1,2\n"),
        ("history.csv", "round,alfv\n1\n"),
        ("history.csv", ""),
        ("history.csv", "round\nmany\n"),
        ("summary.json", "{"),
        ("summary.json", "[]"),
        ("summary.json", '{"guarantee": "proved"}'),
        ("environment.json", "3"),
        ("config.toml", b"\xff"),
        ("page.json", "{}"),
    ],
)
def test_a_folder_with_a_broken_file_is_refused(
    done: dict[str, Finished], tmp_path: Path, name: str, content: str | bytes | None
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_of(done, "published"), folder)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=r"must|made from"):
        folders_page([folder])


def test_folders_are_told_apart_by_as_much_of_their_path_as_it_takes(tmp_path: Path) -> None:
    assert folder_names([tmp_path / "a", tmp_path / "b"]) == ["a", "b"]
    assert folder_names([tmp_path / "x" / "run", tmp_path / "y" / "run"]) == ["x/run", "y/run"]


def test_open_hands_the_report_to_the_browser(
    done: dict[str, Finished], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "browser.py"
    script.write_text("import sys; open('opened', 'w').write(sys.argv[1])")
    monkeypatch.setenv("BROWSER", f"{sys.executable} {script} %s")
    finished = run_script(tmp_path, "report", str(run_of(done, "proved")), "--out", "page.html", "--open")
    assert (finished.code, finished.out, finished.err) == (0, "Written to page.html\n", "")
    assert (tmp_path / "opened").read_text() == (tmp_path / "page.html").as_uri()


def test_help_shows_examples(done: dict[str, Finished]) -> None:
    assert all(text in done["help"].out for text in ("fedspd report runs/first --open", "--out", "--json"))
