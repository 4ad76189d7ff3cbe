"""The commands that run many runs: what they leave behind, what they say about privacy, and what they refuse."""

import csv
import json
import tomllib
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedspd.algorithms import METHODS
from fedspd.config import Config, parse
from fedspd.report import folders_page
from fedspd.studies.compare import Cell, cells, configuration
from fedspd.studies.jobs import keep, run_key
from fedspd.studies.lineup import CLAIMED, EVERYBODY, OPEN, PRIVATE, TRUST, UNTUNED
from fedspd.studies.tuning import POINTS, PROTOCOL, SEEDS, TuningGrid, trials
from tests.studies.made import once, result
from tests.support.command import Finished, run_all

pytestmark = pytest.mark.slow

SMALL = ("compare", "--data", "adult", "--seeds", "1", "--epsilon", "1", "--deal", "iid", "--participation", "full")
FIRST: dict[str, tuple[str, ...]] = {"figure 6": ("reproduce", "fig6", "--out", "study")}
THEN: dict[str, tuple[str, ...]] = {
    "again": ("reproduce", "fig6", "--out", "../figure-6/study", "--json"),
    "one compared": (*SMALL, "--method", "dp-sgd", "--out", "study"),
    "foreign": ("reproduce", "fig6", "--out", "mine"),
    "foreign compared": (*SMALL, "--out", "mine"),
    "somebody's page": ("reproduce", "fig6", "--out", "site"),
    "a file": ("reproduce", "fig6", "--out", "note.txt"),
    "unknown figure": ("reproduce", "fig7"),
    "unknown deal": ("compare", "--deal", "power-law"),
    "unknown share": ("compare", "--participation", "20"),
    "unknown budget": ("compare", "--epsilon", "-1"),
    "no seeds": ("reproduce", "fig2", "--seeds", "0"),
    "no figure": ("reproduce",),
    "help": ("reproduce", "--help"),
    "compare help": ("compare", "--help"),
    "all help": ("--help",),
}
LONG_FIRST: dict[str, tuple[str, ...]] = {"compared": (*SMALL, "--out", "study")}
LONG_THEN: dict[str, tuple[str, ...]] = {
    "figure 2": ("reproduce", "fig2", "--seeds", "1", "--out", "new/study", "--json"),
    "compared again": (*SMALL, "--out", "../compared/study", "--json"),
    "report": ("report", "../figure-6/study", "../compared/study", "--out", "both.html"),
    "report into": ("report", "../figure-2/new/study", "--json"),
}
REFUSED = {
    "foreign": "got mine, which already holds files; name another with --out.",
    "foreign compared": "got mine, which already holds files; name another with --out.",
    "a file": "got note.txt, which is a file; name another with --out.",
    "unknown figure": "the figure must be one of fig2, fig3, fig4, fig5, fig6 or all, got 'fig7'; name one of those.",
    "unknown deal": "the deal must be one of iid, dirichlet, occupation, got 'power-law'; name one of those.",
    "unknown share": "the participation must be one of full, 20%, got '20'; did you mean '20%'?",
    "unknown budget": "privacy.epsilon must be at least 1e-06 and at most 10000, or inf, got -1.0.",
}
FIGURE_6 = {"page.json", "report.html", "verdict.csv", "verdict.md", "curves.csv"} | {
    f"fig6-{variant}-{end}.png" for variant in ("published", "proved") for end in ("fcp", "pcp")
}
# Which point of its grid wins for every method: results of trials that are known already are read, and these are
# written by hand, since all of them would take minutes.
WINNERS = {"FedSPD-DP": 3, "DP-SGD": 5, "DP-FedAvg": 2, "DP-ADMM": 4, "FedAvg": 1, "FedProx": 3, "FedPD": 4}
LATER = [title for title in EVERYBODY if title not in WINNERS and title not in UNTUNED]
WINNERS |= {title: (4 + 3 * number) % POINTS for number, title in enumerate(LATER)}
TUNED = [cell for cell in cells((1.0,), ("iid",), ("full",)) if cell.method not in UNTUNED]
SITE = {"page.json": '{"title": "My site"}', "index.html": "<p>Years of work</p>"}


def grid_of(cell: Cell) -> TuningGrid:
    name = configuration(cell).algorithm.name
    return METHODS[name].board_grid or METHODS[name].grid


def write_trials(cache: Path, tuned: list[Cell]) -> None:
    """Into the cache of the commands: the best accuracy for the winners."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        for cell in tuned:
            for place, trial in enumerate(trials(configuration(cell), grid_of(cell), SEEDS)):
                best = place // len(SEEDS) == WINNERS[cell.method]
                keep(run_key(trial), result({"test_accuracy": 0.8 if best else 0.7}, test_accuracy=np.zeros(2)))


def run_twice(root: Path, first: dict[str, tuple[str, ...]], then: dict[str, tuple[str, ...]]) -> None:
    """Run the first commands, note the files they left, and run the others."""
    for cases in (first, then):
        for name, end in run_all(root, cases).items():
            (root / f"{name}.code").write_text(str(end.code))
            if cases is first:
                inodes = {path.name: path.stat().st_ino for path in (end.folder / "study").iterdir()}
                (root / f"{name}.inodes").write_text(json.dumps(inodes))


def read_back(root: Path, cases: Iterable[str]) -> dict[str, Finished]:
    found = {}
    for name in cases:
        folder = root / name.replace(" ", "-")
        ends = (Path(f"{folder}.{end}").read_text() for end in ("out", "err"))
        found[name] = Finished(folder, int((root / f"{name}.code").read_text()), *ends)
    return found


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    """All quick commands, made by one worker and read by all."""

    def make(root: Path) -> None:
        for name in ("foreign", "foreign-compared"):
            (root / name / "mine").mkdir(parents=True)
            (root / name / "mine" / "thesis.txt").write_text("Years of work")
        (root / "somebody's-page" / "site").mkdir(parents=True)
        for name, content in SITE.items():
            (root / "somebody's-page" / "site" / name).write_text(content)
        (root / "a-file").mkdir()
        (root / "a-file" / "note.txt").write_text("mine")
        write_trials(root / "cache", [cell for cell in TUNED if cell.method == "DP-SGD"])
        run_twice(root, FIRST, THEN)

    return read_back(once(tmp_path_factory, "study-commands", make), FIRST | THEN)


@pytest.fixture(scope="module")
def studied(done: dict[str, Finished], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    """The long ones too."""

    def make(root: Path) -> None:
        (root / "figure-6").symlink_to(done["figure 6"].folder)
        write_trials(root / "cache", TUNED)
        run_twice(root, LONG_FIRST, LONG_THEN)

    return done | read_back(once(tmp_path_factory, "long-study-commands", make), LONG_FIRST | LONG_THEN)


def strict_json(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["figure 6", "again", "one compared", "help"])
def test_what_is_asked_for_properly_ends_well_and_says_nothing_on_stderr(done: dict[str, Finished], name: str) -> None:
    assert (done[name].code, done[name].err) == (0, "")


@pytest.mark.parametrize("name", ["figure 2", "compared", "compared again", "report", "report into"])
def test_what_takes_long_ends_well_and_says_nothing_on_stderr(studied: dict[str, Finished], name: str) -> None:
    assert (studied[name].code, studied[name].err) == (0, "")


def test_a_comparison_of_one_method_has_that_and_the_central_one(done: dict[str, Finished]) -> None:
    with (done["one compared"].folder / "study" / "leaderboard.csv").open() as file:
        accuracy = {row["method"]: float(row["accuracy, %"]) for row in csv.DictReader(file)}
    assert accuracy.keys() == {"DP-SGD", "l1 logistic regression"}
    assert 81 < accuracy["DP-SGD"] < 86
    assert PROTOCOL in done["one compared"].out


def test_figure_6_leaves_a_complete_study_and_nothing_beside_it(done: dict[str, Finished]) -> None:
    assert names(done["figure 6"].folder) == {"study"}
    assert names(done["figure 6"].folder / "study") == FIGURE_6
    for path in (done["figure 6"].folder / "study").glob("*.png"):
        with Image.open(path) as image:
            assert image.format == "PNG"


def test_figure_6_prints_the_verdict_the_statements_and_where_it_is(done: dict[str, Finished]) -> None:
    printed = done["figure 6"].out
    assert "the total loss of FedSPD-DP is below DP-ADMM's" in printed
    assert "cannot be tested" in printed
    for statement in folders_page([done["figure 6"].folder / "study"]).privacy:
        assert statement in printed
    assert printed.endswith("Written to study; open study/report.html\n")
    assert not set(printed) & set("\x1b\r━╸╺█")


def test_a_second_call_with_the_same_folder_replaces_the_study_with_an_equal_one(done: dict[str, Finished]) -> None:
    folder = done["figure 6"].folder
    before = json.loads((folder.parent / "figure 6.inodes").read_text())
    assert names(folder / "study") == FIGURE_6
    assert names(folder) == {"study"}
    assert (folder / "study" / "page.json").stat().st_ino != before["page.json"]
    assert strict_json(done["again"].out)["folder"] == "../figure-6/study"


def test_json_is_the_tables_the_statements_and_the_folder_and_nothing_else(done: dict[str, Finished]) -> None:
    printed = strict_json(done["again"].out)
    assert printed.keys() == {"folder", "privacy", "verdict"}
    study = done["figure 6"].folder / "study"
    assert tuple(printed["privacy"]) == folders_page([study]).privacy
    with (study / "verdict.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["verdict"] for row in printed["verdict"]] == [row["verdict"] for row in rows]
    assert {row["variant"] for row in printed["verdict"]} == {"as published", "proved"}


def test_figure_2_with_one_seed_is_drawn_and_its_random_claims_cannot_be_tested(studied: dict[str, Finished]) -> None:
    study = studied["figure 2"].folder / "new" / "study"
    assert names(study) >= {"page.json", "report.html", "fig2-published.png", "fig2-proved.png", "curves.csv"}
    judged = {(row["claim"], row["variant"]): row["verdict"] for row in strict_json(studied["figure 2"].out)["verdict"]}
    assert judged["a larger total epsilon gives a higher accuracy", "proved"] == "cannot be tested"
    assert judged["rho >= sqrt(gamma) holds", "as published"] == "does not hold"
    with (study / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 4 * 2 * 100
    last = {
        row["curve"]: float(row["mean"])
        for row in rows
        if row["panel"] == "proved" and "accuracy" in row["measure"] and float(row["round"]) == 100
    }
    assert len(last) == 4
    assert min(last.values()) > 76.4, "the proved method is above the majority class at every budget"


def test_a_comparison_has_every_method_once_and_the_central_one(studied: dict[str, Finished]) -> None:
    study = studied["compared"].folder / "study"
    with (study / "leaderboard.csv").open() as file:
        rows = list(csv.DictReader(file))
    private = {row["method"] for row in rows if row["epsilon"]}
    without = {row["method"] for row in rows if not row["epsilon"]}
    called = {cell.method: cell.label for cell in cells((1.0,), ("iid",), ("full",))}
    assert private == {called[method] for method in (*PRIVATE, *UNTUNED, *CLAIMED)}
    assert without >= {called[method] for method in OPEN}
    assert len(rows) == len(private) + len(without)
    accuracy = {row["method"]: float(row["accuracy, %"]) for row in rows}
    assert all(value > 70 for name, value in accuracy.items() if name in {called[method] for method in PRIVATE}), (
        accuracy
    )
    assert all(81 < accuracy[called[method]] < 86 for method in ("FedSPD-DP", "DP-SGD", "DP-FedAvg", *OPEN)), accuracy
    alone, sums, trusted = (accuracy[method] for method in TRUST)
    assert alone + 0.5 < min(sums, trusted), "sums are worth more than half a point"
    assert abs(sums - trusted) < 0.2, "and at this budget as much as a trusted server, but for the noise of one seed"
    board = [row for row in rows if row["method"] not in TRUST]  # whose rounds are the rule's own
    megabytes = {row["method"]: float(row["MB up"]) for row in board if row["MB up"]}
    others = {"one shot": 0.131, "DP-SCAFFOLD": 1.312}  # one round, and two matrices in each
    assert megabytes == dict.fromkeys(megabytes, 0.656) | others, "the same uploads: 500 of 164 numbers"
    assert {row["rounds"] for row in board if row["rounds"]} == {"5", "1"}


def test_every_tuned_method_ran_with_the_point_that_won_its_trials_and_nothing_was_tried_twice(
    studied: dict[str, Finished],
) -> None:
    study = studied["compared"].folder / "study"
    with (study / "leaderboard.csv").open() as file:
        chosen = {row["method"]: row["chosen"] for row in csv.DictReader(file)}
    for method, place in WINNERS.items():
        epsilon = inf if method in OPEN else 1.0
        cell = Cell("iid", "full", epsilon, method)
        point = grid_of(cell)[place]
        assert chosen[cell.label] == ", ".join(f"{name.partition('.')[2]} {value:.3g}" for name, value in point.items())
        (text,) = [text for name, text in folders_page([study]).configurations if name.endswith(f": {cell.label}")]
        assert point.items() <= flat(parse(tomllib.loads(text))).items()
    assert all(chosen[method] == "" for method in UNTUNED)
    kept = len(list((studied["compared"].folder.parent / "cache" / "fedspd" / "runs").glob("*.npz")))
    tried = len(SEEDS) * sum(len(grid_of(cell)) for cell in TUNED)
    assert kept == tried + len(WINNERS) + len(UNTUNED) + 8, "besides the trials: every method, and figure 2"


def flat(config: Config) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, keys in config.to_dict().items() for key, value in keys.items()}


def test_central_l1_logistic_regression_reaches_84_62_percent(studied: dict[str, Finished]) -> None:
    with (studied["compared"].folder / "study" / "leaderboard.csv").open() as file:
        (row,) = [row for row in csv.DictReader(file) if row["method"] == "l1 logistic regression"]
    assert float(row["accuracy, %"]) == pytest.approx(84.62, abs=0.1)
    assert 0.32 < float(row["log-loss"]) < 0.34
    assert row["epsilon"] == ""


def test_every_output_of_a_comparison_states_privacy_and_that_tuning_is_not_charged(
    studied: dict[str, Finished],
) -> None:
    study = studied["compared"].folder / "study"
    statement = folders_page([study]).privacy[0]
    assert statement.startswith("Every method marked proved is (epsilon, 1e-05)-differentially private end to end: ")
    for text in (
        studied["compared"].out,
        " ".join(strict_json(studied["compared again"].out)["privacy"]),
        (study / "report.html").read_text("utf-8"),
        " ".join(json.loads((study / "page.json").read_text())["privacy"]),
    ):
        assert statement in text
        assert PROTOCOL in text
    assert "not charged" in PROTOCOL


def test_a_second_comparison_reads_the_same_numbers_from_the_cache(studied: dict[str, Finished]) -> None:
    printed = strict_json(studied["compared again"].out)
    assert printed["folder"] == "../compared/study"
    shown = {row["method"]: row for row in printed["leaderboard"]}
    with (studied["compared"].folder / "study" / "leaderboard.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        value, error, _ = shown[row["method"]]["accuracy, %"]
        assert (value, error) == (float(row["accuracy, %"]), None)
        if row["seconds"]:
            assert shown[row["method"]]["seconds"][0] == float(row["seconds"]), "a run anew would take another time"
    before = json.loads((studied["compared"].folder.parent / "compared.inodes").read_text())
    assert (studied["compared"].folder / "study" / "page.json").stat().st_ino != before["page.json"]


def test_the_command_report_takes_study_folders(studied: dict[str, Finished]) -> None:
    document = (studied["report"].folder / "both.html").read_text("utf-8")
    assert "Reproduction of Section V" in document
    assert "All methods at equal privacy" in document
    assert PROTOCOL in document
    assert strict_json(studied["report into"].out) == {"report": "../figure-2/new/study/report.html"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(done: dict[str, Finished], name: str) -> None:
    assert (done[name].code, done[name].out) == (2, "")
    assert done[name].err.startswith("fedspd: ")
    assert done[name].err.rstrip("\n").endswith(REFUSED[name])
    assert done[name].err.count("\n") == 1
    assert not (done[name].folder / "runs").exists()


@pytest.mark.parametrize("name", ["no seeds", "no figure"])
def test_wrong_options_are_exit_code_2_without_a_traceback(done: dict[str, Finished], name: str) -> None:
    assert done[name].code == 2
    assert "Traceback" not in done[name].err


def test_a_folder_with_foreign_files_is_left_untouched(done: dict[str, Finished]) -> None:
    for name in ("foreign", "foreign compared"):
        assert names(done[name].folder) == {"mine"}
        assert names(done[name].folder / "mine") == {"thesis.txt"}
        assert (done[name].folder / "mine" / "thesis.txt").read_text() == "Years of work"
    assert (done["a file"].folder / "note.txt").read_text() == "mine"


def test_a_folder_with_a_page_that_no_study_wrote_is_left_untouched(done: dict[str, Finished]) -> None:
    """page.json is no rare name: whoever names the wrong folder must not lose it."""
    site = done["somebody's page"].folder / "site"
    assert {path.name: path.read_text() for path in site.iterdir() if path.name in SITE} == SITE
    assert names(site) == set(SITE)
    assert done["somebody's page"].code == 2


def test_help_shows_examples_and_every_option(done: dict[str, Finished]) -> None:
    assert "fedspd reproduce fig2" in done["help"].out
    assert "fedspd reproduce all --seeds 10" in done["help"].out
    assert "fedspd compare --epsilon 1 --epsilon 8 --deal iid" in done["compare help"].out
    assert all(option in done["help"].out for option in ("--seeds", "--out", "--json"))
    options = ("--seeds", "--epsilon", "--deal", "--data", "--participation", "--out", "--json")
    assert all(option in done["compare help"].out for option in options)
    assert all(command in done["all help"].out for command in ("reproduce", "compare"))
