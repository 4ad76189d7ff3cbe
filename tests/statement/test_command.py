"""The commands `statement` and `card`: forms, what people declare, what lies beside, signatures."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from fedspd.cli import app
from fedspd.deploy.setup.keys import write_private_key
from fedspd.errors import InputError
from fedspd.privacy.ledger import Ledger
from fedspd.report.numbers import at_most
from fedspd.report.of_runs.runs import runs_page
from fedspd.report.statement.sections import statement_sections
from fedspd.results import read_run, read_statement, write_statement
from fedspd.results.audit import AuditRecord, Replayed
from fedspd.results.evaluation import Evaluation, Measure, write_evaluations
from fedspd.results.statement import schema
from fedspd.statement import against, card_of

DECLARED = '[statement]\ndata_steward = "Dr. <b>Keller</b>"\nsector = "Healthcare"\nlimits = "Not for children."\n'
SMALL = [
    "--set",
    "run.rounds=2",
    "--set",
    "run.seed=1",
    "--set",
    "partition.clients=10",
    "--set",
    "run.participants=10",
]
QUICK = ["--set", "metrics.criterion=false", "--set", "metrics.lagrangian=false", "--set", "data.encode=declared"]


def command(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(done.exception, InputError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "run"
    command("run", *SMALL, *QUICK, "--out", folder, "--quiet")
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    from shutil import copytree

    (tmp_path / "declared.toml").write_text(DECLARED)
    return copytree(made, tmp_path / "run")


def test_all_forms_say_the_same_claim(run: Path, tmp_path: Path) -> None:
    assert json.loads(command("statement", run, "--json")) == read_statement(run)
    claim = "(1, 1e-05)-differential privacy, proved"
    assert claim in command("statement", run)
    assert command("statement", run) == command("statement", run, "--markdown")
    command("statement", run, "--html", "--out", tmp_path / "page.html")
    assert claim in (tmp_path / "page.html").read_text()
    with pytest.raises(InputError, match="one form"):
        command("statement", run, "--json", "--html")


def test_what_people_declare_is_kept_and_shown_without_being_obeyed(run: Path, tmp_path: Path) -> None:
    command("statement", run, "--declare", tmp_path / "declared.toml")
    assert read_statement(run)["declared"]["data_steward"] == "Dr. <b>Keller</b>"
    page = command("statement", run, "--html")
    assert "Dr. &lt;b&gt;Keller" in page
    assert "<b>" not in page
    assert "complian" not in page.lower()
    assert "Not for children." in command("card", run)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('[statement]\nstewart = "x"\n', "did you mean"),
        ('data_steward = "x"\n', "under \\[statement\\]"),
        ('[statement]\nlimits = "' + "x" * 301 + '"\n', "at most 300 characters"),
        ("[statement]\nlimits = 3\n", "must be a string"),
    ],
)
def test_what_cannot_be_declared_is_refused(content: str, told: str, run: Path, tmp_path: Path) -> None:
    (tmp_path / "declared.toml").write_text(content)
    with pytest.raises(InputError, match=told):
        command("statement", run, "--declare", tmp_path / "declared.toml")


def test_a_signed_statement_is_verified_and_stays_as_it_is(run: Path, tmp_path: Path) -> None:
    write_private_key(key := tmp_path / "site.key")
    from fedspd.deploy.protocol.identity import read_identity

    (tmp_path / "site.key.pub").write_text(f"{read_identity(key).public.line} north\n")
    assert "Signed by SHA256:" in command("statement", run, "--sign", key)
    assert "signed it" in command("statement", run, "--verify", tmp_path / "site.key.pub")
    assert "signed it" in command("statement", run, "--verify", read_identity(key).public.line)
    with pytest.raises(InputError, match="stays as it is"):
        command("statement", run, "--declare", tmp_path / "declared.toml")
    changed: Any = read_statement(run)
    write_statement(run, {**changed, "run": {**changed["run"], "rounds": 3}})
    with pytest.raises(InputError, match="another text"):
        command("statement", run, "--verify", tmp_path / "site.key.pub")


def test_an_audit_and_measurements_beside_it_are_taken_up(run: Path) -> None:
    replay = Replayed(pairs=3, worst_ratio=0.9, state_differs=False, most_moved=1, survived=True, ratios=())
    AuditRecord(
        claimed_epsilon=1.0, delta=1e-5, guarantee="proved", lower_bound=0.4, confidence=0.95, attack="sign", runs=9,
        refuted=False, attacks=(), replay=replay, noise_is_fresh=True,
    ).write(run)  # fmt: skip
    measures = (Measure("accuracy", 0.8, 0.7, 0.9, group="female"), Measure("calibration", 0.5, 0.4, 0.6, at=0.25))
    one = Evaluation(
        number=1, model="last", kind="classes", records=500, clients=10, classes=("no", "yes"), edges=(),
        subgroup="sex", least_size=20, unit="record", relation="replace-one", sensitivity=1.0, noise_multiplier=9.0,
        noise=9.0, epsilon=0.05, delta=1e-5, charged=True, counts=((1.0,),), shapes=((1,),), measures=measures,
    )  # fmt: skip
    write_evaluations(run, (one,))
    with pytest.raises(InputError, match="got one without 1 of 1 measurements"):
        command("statement", run)  # the ledger has no such charge
    write_evaluations(run, (replace(one, charged=False),))
    told = command("statement", run)
    assert "not refuted: of a claimed epsilon of 1 at delta 1e-05 at least 0.4 leaks, with 95 % confidence" in told
    filed: Any = read_statement(run)
    refuted = {**filed, "audit": {**filed["audit"], "refuted": True}}
    lead = statement_sections(refuted)[0].text[0]
    assert lead.startswith("An audit refuted this statement: do not rely on it. (1, 1e-05)")
    assert card_of(read_run(run), refuted)["limits"][0] == "An audit refuted this statement: do not rely on it."
    for odd in ({}, {**filed["audit"], "runs": "many"}, {**filed["audit"], "more": 1}):
        with pytest.raises(InputError, match=r"must be a statement of version 1, got .*audit"):
            write_statement(run, {**filed, "audit": odd})
    assert "Evaluation (not charged): Measured once on 500 held-out records, by counts with noise: epsilon 0.05" in told
    assert "records of the test set, without noise and without a charge: they count as public." in told
    assert "sex = female | 0.8 | 0.7 to 0.9" in command("card", run)
    assert "calibration" not in command("card", run)


def test_a_draft_for_the_registry_has_its_fields(run: Path, tmp_path: Path) -> None:
    import yaml

    command("statement", run, "--declare", tmp_path / "declared.toml")
    draft = yaml.safe_load(command("statement", run, "--registry"))
    jsonschema.validate(draft, yaml.safe_load((Path(__file__).parent / "registry-schema.yaml").read_text()))
    assert draft["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-05}
    assert draft["deployment"]["administrative"]["tier"] == 3
    assert draft["deployment"]["basic"]["data_product_sector"] == "Healthcare"


def test_a_report_opens_with_the_statement(run: Path) -> None:
    titles = [section.title for section in runs_page({"run": read_run(run)}).sections]
    assert titles[:2] == ["The claim", "What it means"]
    assert titles[-2:] == ["Results", "Diagnostics"]


def test_the_ledger_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    command("ledger", "create", tmp_path / "other.db")
    with pytest.raises(InputError, match="without; name the ledger that was charged"):
        command("statement", run, "--ledger", tmp_path / "other.db")


def test_the_head_is_copied_after_a_run_on_a_shared_ledger(tmp_path: Path) -> None:
    command("ledger", "create", ledger := tmp_path / "shared.db")
    arguments = [*SMALL, *QUICK, "--ledger", ledger, "--out", tmp_path / "out", "--quiet"]
    command("run", *arguments, "--head-file", tmp_path / "heads")
    (line,) = (tmp_path / "heads").read_text().splitlines()
    assert json.loads(line)["head"] == read_statement(tmp_path / "out")["ledger"]["head"]
    for odd in (["--head-command", "'"], ["--head-command", " "]):
        for name in (["run"], *(([each, tmp_path / "out"]) for each in ("evaluate", "infer", "select"))):
            with pytest.raises(InputError, match="--head-command must be a program"):
                command(*name, "--ledger", ledger, *odd)
    with pytest.raises(InputError, match="belong to a ledger"):
        command("run", "--head-file", "x")


def test_the_page_needs_nothing_and_runs_no_script_but_its_own(run: Path) -> None:
    page = command("statement", run, "--html")
    assert not re.findall(r'(?:src|href)="', page)
    assert "default-src 'none'" in page


def test_persons_are_the_unit_of_their_statement_and_measuring_is_part_of_it(tmp_path: Path) -> None:
    visits = ["--data", "visits", "--set", "privacy.unit=person", "--set", "evaluation.held_out=0.2"]
    quick = ["--set", "run.rounds=2", "--set", "run.seed=1", *QUICK[:4]]
    command("run", *visits, *quick, "--out", tmp_path / "run", "--quiet")
    measured = command("evaluate", tmp_path / "run")
    assert re.search(r"counts of \d+ held-out\s+persons", measured)
    told = command("statement", tmp_path / "run")
    assert "Unit: all records of one person at a client." in told
    assert "All rows of a person at a client are one unit" in told
    assert re.search(r"Evaluation \(charged\): Measured once on \d+ held-out persons", told)
    assert "in parts of the target's range" in " ".join(measured.split())
    card = command("card", tmp_path / "run")
    assert re.search(r"\| mean absolute residual, in parts of the range \| .* held-out persons, with noise", card)
    assert "| what | declared |" not in told, "nothing is, so there is no table"
    found = read_statement(tmp_path / "run")
    trained, held = found["run"]["records"], found["run"]["held_out"]
    assert f"{trained} in all, and {held} held-out persons to measure on" in told
    draft = json.loads(command("statement", tmp_path / "run", "--registry"))
    loss = draft["deployment"]["privacy_loss"]
    assert loss["number_of_privacy_units"] == trained + held > trained
    assert f"Of these persons {held} were held out to measure the model on." in loss["privacy_unit_details"]
    jsonschema.validate(found, schema())
    assert {one["mechanism"] for one in found["budget"]["charges"]} == {"moments", "fedspd", "evaluation"}
    assert found["guarantee"]["epsilon_spent"] >= found["budget"]["this_run"], "the measurement was released too"
    assert f"What was released cost {at_most(found['budget']['this_run'])} at most" in told
    ledger, file = tmp_path / "run" / "ledger.sqlite", tmp_path / "run" / "statement.json"
    assert "Agrees: " in command("ledger", "verify", ledger, "--against", file)


def test_a_charged_choice_between_runs_is_told(tmp_path: Path) -> None:
    command("ledger", "create", ledger := tmp_path / "shared.db")
    both = ["--ledger", ledger, "--ledger-epsilon", "3", "--data", "digits", "--clients", "5", "--set", "run.rounds=2"]
    both += ["--set", "evaluation.held_out=0.2", "--set", "partition.seed=1", *QUICK[:4], "--quiet"]
    for seed in ("1", "2"):
        command("run", *both, "--set", f"run.seed={seed}", "--out", tmp_path / seed)
    command("select", tmp_path / "1", tmp_path / "2", "--ledger", ledger)
    told = command("statement", tmp_path / "1", "--ledger", ledger)
    assert "Tuning (charged): This run was one of 2" in told
    found = read_statement(tmp_path / "1")
    together, paid = found["tuning"]["epsilon"], found["budget"]["in_all"]
    assert together == paid > found["guarantee"]["epsilon"]
    assert f"With all runs that it was held against by scores, and these: {at_most(together)}." in told
    assert f"All candidates and the choice cost at most {at_most(together)} together" in told
    assert "| scores of several models on held-out records, to choose one, with noise | once by each client" in told
    assert "to choose one, with noise, once, charged apart." in command("statement", tmp_path / "1", "--registry")
    assert "spent by 1 other run on the ledger | " in told
    assert "Agrees: " in command("ledger", "verify", ledger, "--against", tmp_path / "1" / "statement.json")
    changed: Any = {**found, "tuning": {**found["tuning"], "epsilon": 0.95 * together}}
    with Ledger(ledger) as opened:
        assert [one.where for one in against(changed, opened).differences] == ["tuning.epsilon"]


@pytest.mark.parametrize("form", ["--html", "--markdown", "--json", "--registry"])
def test_control_characters_in_a_statement_are_shown_and_not_obeyed(run: Path, tmp_path: Path, form: str) -> None:
    found = json.loads((run / "statement.json").read_text())
    found["run"]["name"] = "ward \x1b[31m\x07\ud800"
    found["declared"]["limits"] = "not\x9bfor\x00children"
    (run / "statement.json").write_text(json.dumps(found))
    command("statement", run, form, "--out", tmp_path / "told")
    assert all(line.isprintable() for line in (tmp_path / "told").read_text("utf-8").split("\n"))
    assert all(line.isprintable() for line in command("statement", run, form).split("\n"))
