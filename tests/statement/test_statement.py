"""Every run leaves a statement that keeps to its schema and claims no more than is proved."""

import json
import math
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fedspd.algorithms import METHODS
from fedspd.assemble import execute, prepare_experiment
from fedspd.errors import InputError
from fedspd.privacy.accounting import spent
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.report.numbers import at_most
from fedspd.report.statement.card import card_lead
from fedspd.report.statement.markdown import statement_markdown
from fedspd.report.statement.sections import statement_sections
from fedspd.results import read_statement, write_statement
from fedspd.results.statement import misfits, schema, statement_text
from fedspd.statement import card_of, claimed, registry_text, with_ledger
from fedspd.statement.registry import registry_draft
from tests.support.small_runs import small_run

PROVED = sorted(name for name, method in METHODS.items() if method.guarantee == "proved")
SUMS = {"privacy__trust": "secure-sums", "run__participants": 10, "problem__counts": "records"}
POISSON = {"algorithm__sampling": "poisson", "algorithm__batch_size": 50, "algorithm__local_steps": 2}
SUBSETS = {"algorithm__sampling": "without-replacement", "algorithm__batch_size": 50}


def stated(folder: Path, name: str, **changes: Any) -> dict[str, Any]:
    """The statement of a small run, as its file has it."""
    config = small_run(name, run__seed=3, **changes)
    if METHODS[name].guarantee != "proved":
        run = execute(prepare_experiment(config))
        return json.loads(statement_text(claimed(run.record(), run.planned, run.model())))
    create_ledger(folder / "ledger.db")
    with Ledger(folder / "ledger.db") as ledger:
        prepared = prepare_experiment(config, lambda: ledger)
        run = execute(prepared)
        assert prepared.gate is not None
        made = with_ledger(claimed(run.record(), run.planned, run.model()), ledger, prepared.gate.run)
    return json.loads(statement_text(made))


@pytest.mark.parametrize("name", PROVED)
def test_the_statement_of_every_proved_method_keeps_to_the_schema(name: str, tmp_path: Path) -> None:
    found = stated(tmp_path, name)
    jsonschema.validate(found, schema())
    assert not [*misfits(found, schema())]
    assert found["guarantee"]["standing"] == "proved"
    assert found["budget"]["in_all"] <= found["guarantee"]["epsilon"]
    assert found["guarantee"]["planned"]


@pytest.mark.parametrize(
    "changes", [SUMS, POISSON, SUBSETS, {"data__scaling": "min-max"}], ids=["sums", "poisson", "subsets", "min-max"]
)
def test_the_statement_of_every_trust_and_sampling_keeps_to_the_schema(changes: Any, tmp_path: Path) -> None:
    found = stated(tmp_path, "fedspd", **changes)
    jsonschema.validate(found, schema())
    assert not [*misfits(found, schema())]
    assert (found["trust"]["epsilon_alone"] is not None) == (changes is SUMS)
    assert found["guarantee"]["gaussian"] == (changes not in (POISSON, SUBSETS))


@pytest.mark.parametrize("name", ["fedspd-published", "fedavg"])
def test_a_run_without_proof_says_so_and_means_nothing(name: str, tmp_path: Path) -> None:
    found = stated(tmp_path, name)
    jsonschema.validate(found, schema())
    assert found["meaning"] is None
    assert not found["guarantee"]["groups"]
    assert found["guarantee"]["standing"] in ("as published", "none")
    told = statement_markdown(found)
    assert "Nothing is proved about this run" in told or "No privacy: this run added no noise." in told


def test_the_schema_itself_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_what_is_no_statement_is_refused_in_a_sentence(tmp_path: Path) -> None:
    found = stated(tmp_path, "dp-sgd")
    planned = found["guarantee"]["planned"][0]
    write_statement(tmp_path, found)
    assert read_statement(tmp_path) == found
    for content in (
        "{",
        "[]",
        '{"version": 2}',
        json.dumps(found | {"odd": 1}),
        json.dumps(found | {"budget": 3}),
        json.dumps(found | {"meaning": {**found["meaning"], "belief_factor": 0.0}}),
        json.dumps(found | {"guarantee": {**found["guarantee"], "planned": [{**planned, "count": 10**15}]}}),
        "NaN",
    ):
        (tmp_path / "statement.json").write_text(content)
        with pytest.raises(InputError, match="statement"):
            read_statement(tmp_path)


def test_the_reader_and_jsonschema_agree_about_every_part_that_is_taken_out(tmp_path: Path) -> None:
    found = stated(tmp_path, "dp-sgd")
    for broken in [*without_a_part(found), *with_an_odd_part(found)]:
        valid = jsonschema.Draft202012Validator(schema()).is_valid(broken)
        assert valid == (not [*misfits(broken, schema())])


def test_the_claim_of_a_simulation_by_a_seed_says_who_can_subtract_its_noise(tmp_path: Path) -> None:
    found = stated(tmp_path, "dp-sgd")
    lead = statement_sections(found)[0].text[0]
    assert "differential privacy, proved" in lead
    assert "whoever has its seed can subtract the noise" in lead
    found["randomness"] = {**found["randomness"], "source": "operating system", "seed": None}
    assert "subtract" not in statement_sections(found)[0].text[0]


def test_bounds_that_are_round_numbers_are_shown_as_they_are(tmp_path: Path) -> None:
    told = statement_markdown(stated(tmp_path, "dp-sgd"))
    assert "and no more except with a chance of 0.0001." in told


def test_the_claim_of_sums_is_lost_if_any_of_its_assumptions_fails(tmp_path: Path) -> None:
    found = stated(tmp_path, "fedspd", **SUMS)
    assert "If any of that fails, only a client's own noise is sure to be left: (" in statement_markdown(found)


def test_no_page_tells_the_first_number_of_sums_without_what_it_rests_on_and_the_second(tmp_path: Path) -> None:
    found = stated(tmp_path, "fedspd", **SUMS)
    trust, alone = found["trust"], f"({at_most(found['trust']['epsilon_alone'])}, 1e-05)"
    assert (trust["colluders"], trust["members"], trust["threshold"]) == (1, 10, 8)
    rests = "if at most 1 of the 10 members of a cohort tell what they know, any sum holds at least 8 of them, and the"
    record = execute(prepare_experiment(small_run("fedspd", **SUMS))).record()
    draft = registry_draft(found)["deployment"]["deployment_model"]["trust_assumptions"]
    for told in (statement_sections(found)[0].text[0], card_lead(card_of(record, found)), draft):
        assert rests in told, told
        assert f"Without these assumptions, by a client's own noise alone: {alone}." in told, told
    assert "holds as far as the claim's assumptions do" in statement_sections(found)[1].text[0]
    (tmp_path / "plain").mkdir()
    plain = stated(tmp_path / "plain", "fedspd")
    for told in (statement_sections(plain)[0].text[0], card_lead(card_of(record, plain))):
        assert "assumptions" not in told


@pytest.mark.parametrize(
    ("name", "changes", "what"),
    [
        ("fedspd", SUMS, "clipped gradients"),
        ("dp-sgd", SUMS, "clipped gradients"),
        ("dp-fedavg", SUMS | {"privacy__unit": "client", "algorithm__local_steps": 2}, "clipped local steps"),
    ],
)
def test_what_cohorts_release_is_the_sum_and_no_members_own(name: str, changes: Any, what: str, tmp_path: Path) -> None:
    found = stated(tmp_path, name, **changes)
    assert found["released"]["what"].startswith(f"of each cohort only the sum of its members' {what}")
    clipped = "contribution of a client times gamma" if name == "dp-fedavg" else "gradient of a record"
    assert f"| {clipped}, at most |" in statement_markdown(found)


def test_a_statement_of_whole_clients_counts_clients_and_nothing_of_theirs(tmp_path: Path) -> None:
    found = stated(tmp_path, "fedspd", **SUMS, privacy__unit="client")
    for told in (statement_markdown(found), registry_text(found)):
        assert not re.search(r"clients? of one client|1 client each|clients each client", told)
    assert ": 10 clients; 3 of 3 rounds" in statement_markdown(found)
    assert "- How many clients there are." in statement_markdown(found)


def test_the_word_that_promises_too_much_is_nowhere(tmp_path: Path) -> None:
    assert "complian" not in statement_markdown(stated(tmp_path, "dp-sgd")).lower()


def test_planned_releases_give_the_stated_epsilon(tmp_path: Path) -> None:
    from fedspd.privacy.accounting import from_dict

    claim = stated(tmp_path, "dp-sgd")["guarantee"]
    planned = [(from_dict(one["event"]), one["count"]) for one in claim["planned"]]
    assert spent(planned, claim["delta"]).epsilon <= claim["epsilon"]
    assert math.isclose(spent(planned, claim["delta"]).epsilon, claim["epsilon"], rel_tol=1e-3)


def without_a_part(value: Any) -> Any:
    """Copies of a value, each without one key of an object."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield {key: other for key, other in value.items() if key != name}
            yield from ({**value, name: changed} for changed in without_a_part(one))
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from ([*value[:place], changed, *value[place + 1 :]] for changed in without_a_part(one))


def with_an_odd_part(value: Any) -> Any:
    """Copies of a value, each with one part that is of another kind."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from ({**value, name: changed} for changed in with_an_odd_part(one))
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from ([*value[:place], changed, *value[place + 1 :]] for changed in with_an_odd_part(one))
    else:
        yield from (["x"], -1, True, "odd", None)


@pytest.mark.parametrize("name", ["one-shot", "ddp-admm-dvp"])
def test_a_claim_of_noise_in_objectives_names_both_noises_and_has_no_condition(name: str, tmp_path: Path) -> None:
    found = stated(tmp_path, name, problem__regularizer="squared-l2")
    record = execute(prepare_experiment(small_run(name, problem__regularizer="squared-l2"))).record()
    draft = registry_draft(found)["deployment"]["privacy_loss"]["privacy_parameters_details"]
    for told in (statement_sections(found)[0].text[0], card_lead(card_of(record, found)), draft):
        assert re.search(r"[Pp]roved[.:,]", told), told
        assert "exact minimizers" not in told
    assert found["mechanism"]["noise"] == "spherical Laplace, in objectives, Gaussian on minimizers"
    assert "minimizer" in {one["event"]["kind"] for one in found["guarantee"]["planned"]}
