"""A statement that was changed is found: by the ledger and a second accountant, or by the signature."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedspd.assemble import execute, prepare_experiment
from fedspd.cli import app
from fedspd.deploy.protocol.filed import sign_statement, verify_statement
from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.setup.keys import write_private_key
from fedspd.errors import InputError
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.results import write_statement
from fedspd.results.statement import statement_text
from fedspd.statement import against, claimed, with_ledger
from tests.statement.test_statement import POISSON, SUBSETS, SUMS, stated
from tests.support.small_runs import small_run

UNKNOWN_TO_A_LEDGER = {
    "version", "run.rounds_planned", "run.records", "run.records_min", "run.records_max", "released.times",
    "released.uploads", "released.numbers", "mechanism.clip_norm", "mechanism.row_norm", "mechanism.local_steps",
    "trust.cohorts", "trust.members",
}  # fmt: skip
"""Settings and counts, which the digests and the signature hold."""


CLIENTS = {**SUMS, "privacy__unit": "client", "algorithm__local_steps": 3}
UNEQUAL = {"partition__kind": "power-law", "partition__exponent": 1.5}


def numbers(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of a statement by its place, and the statement with that number changed."""
    if isinstance(value, dict):
        for name, one in value.items():
            for where, changed in numbers(one, f"{place}.{name}".lstrip(".")):
                yield where, {**value, name: changed}
    elif isinstance(value, list):
        for number, one in enumerate(value):
            for where, changed in numbers(one, f"{place}[{number}]"):
                yield where, [*value[:number], changed, *value[number + 1 :]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place, value + 1 if isinstance(value, int) else value * 1.05 + 1e-9
        if value:
            yield place, value - 1 if isinstance(value, int) else value * 0.95


def is_found(statement: Any, ledger: Ledger) -> bool:
    """Whether a changed statement is refused or differs."""
    try:
        return bool(against(statement, ledger).differences)
    except InputError:
        return True


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("dp-sgd", {}),
        ("fedspd", SUMS),
        ("fedspd", POISSON),
        ("fedspd", SUBSETS),
        ("dp-admm", {}),
        ("one-shot", {}),
        ("dp-radmm", {}),
        ("dp-ftrl", {}),
        ("multi-step-dp-admm", {"algorithm__local_steps": 3}),
        ("fedspd", {**SUMS, "privacy__cohorts": 3}),
        ("fedspd", {**SUMS, **SUBSETS}),
        ("dp-fedavg", CLIENTS),
        ("fedspd", {**SUBSETS, "privacy__accountant": "rdp"}),
        ("fedspd", {"algorithm__local_steps": 3}),
        ("fedspd", UNEQUAL),
        ("fedspd", {**SUMS, **UNEQUAL}),
        ("fedspd", {**POISSON, **UNEQUAL}),
    ],
    ids=[
        "gaussian",
        "sums",
        "poisson",
        "subsets",
        "dp-admm",
        "one-shot",
        "dp-radmm",
        "dp-ftrl",
        "multi-step",
        "cohorts",
        "subsets-of-sums",
        "clients",
        "rdp",
        "local-steps",
        "unequal",
        "unequal-sums",
        "unequal-poisson",
    ],
)
def test_an_honest_statement_agrees_with_its_ledger(name: str, changes: Any, tmp_path: Path) -> None:
    found = stated(tmp_path, name, **changes)
    with Ledger(tmp_path / "ledger.db") as ledger:
        compared = against(found, ledger)
    assert not compared.differences
    assert compared.looked_at > 40


@pytest.mark.parametrize(
    ("name", "changes", "known"),
    [
        ("dp-sgd", {}, set()),
        ("fedspd", SUMS, set()),
        ("fedspd", POISSON, {"run.records", "run.records_min", "run.records_max", "mechanism.local_steps"}),
    ],
    ids=["gaussian", "sums", "poisson"],
)
def test_every_number_that_a_ledger_decides_is_found_when_it_is_changed(
    name: str, changes: Any, known: set[str], tmp_path: Path
) -> None:
    found, missed = stated(tmp_path, name, **changes), set()
    with Ledger(tmp_path / "ledger.db") as ledger:
        for where, changed in numbers(found):
            if not is_found(changed, ledger):
                missed.add(where)
    assert missed <= UNKNOWN_TO_A_LEDGER - known
    assert "guarantee.epsilon" not in missed


def test_a_number_that_is_left_out_differs_whatever_the_accountant_is_called(tmp_path: Path) -> None:
    found = stated(tmp_path, "dp-sgd")
    found["mechanism"] |= {"accountant": "rdp", "epsilon_per_round": None}
    found["guarantee"]["epsilon_spent"] = None
    with Ledger(tmp_path / "ledger.db") as ledger:
        places = {one.where for one in against(found, ledger).differences}
    assert {"guarantee.epsilon_spent", "mechanism.epsilon_per_round"} <= places


@pytest.mark.parametrize(
    ("where", "other"),
    [
        ("guarantee.unit", "person"),
        ("guarantee.unit", "client"),
        ("guarantee.neighbors", "zero-out"),
        ("guarantee.standing", "as published"),
        ("run.kind", "sites"),
        ("run.method", "fedspd"),
        ("mechanism.noise", "spherical Laplace"),
        ("mechanism.sampling", "poisson"),
        ("mechanism.accountant", "a kinder one"),
        ("trust.server_sees", "secure-sums"),
        ("trust.members", 10),
        ("randomness.source", "operating system"),
        ("randomness.seed", None),
        ("evaluation.charged", True),
        ("tuning.charged", True),
    ],
)
def test_every_word_that_a_ledger_decides_is_found_when_it_is_changed(where: str, other: Any, tmp_path: Path) -> None:
    found = stated(tmp_path, "dp-sgd")
    part, name = where.split(".")
    assert found[part][name] != other
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert is_found({**found, part: {**found[part], name: other}}, ledger)


def test_less_than_the_true_epsilon_of_a_client_alone_is_found_whatever_the_accountant_is_called(
    tmp_path: Path,
) -> None:
    found = stated(tmp_path, "fedspd", **SUMS)
    found["mechanism"]["accountant"] = "rdp"  # is held to bounds only, since it is not as tight
    found["trust"]["epsilon_alone"] *= 0.9
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert "trust.epsilon_alone" in {one.where for one in against(found, ledger).differences}


def test_releases_that_were_planned_with_less_noise_are_found(tmp_path: Path) -> None:
    found = stated(tmp_path, "dp-sgd")
    with Ledger(tmp_path / "ledger.db") as ledger:
        for place, one in enumerate(found["guarantee"]["planned"]):
            planned = [*found["guarantee"]["planned"]]
            planned[place] = {
                **one,
                "event": {**one["event"], "noise_multiplier": 0.9 * one["event"]["noise_multiplier"]},
            }
            changed = {**found, "guarantee": {**found["guarantee"], "planned": planned}}
            assert "guarantee.epsilon" in {each.where for each in against(changed, ledger).differences}


def test_every_number_that_is_changed_breaks_the_signature(tmp_path: Path) -> None:
    found, key = stated(tmp_path, "dp-sgd"), tmp_path / "site.key"
    write_private_key(key)
    identity = read_identity(key)
    write_statement(tmp_path, found)
    sign_statement(tmp_path, identity)
    verify_statement(tmp_path, identity.public)
    whole = (tmp_path / "statement.json").read_bytes()
    for _, changed in numbers(found):
        (tmp_path / "statement.json").write_text(statement_text(changed))
        with pytest.raises(InputError, match=r"another text|must be a statement"):
            verify_statement(tmp_path, identity.public)
    (tmp_path / "statement.json").write_bytes(whole)
    verify_statement(tmp_path, identity.public)


def test_another_key_and_a_broken_signature_are_refused(tmp_path: Path) -> None:
    write_statement(tmp_path, stated(tmp_path, "dp-sgd"))
    for name in ("one.key", "other.key"):
        write_private_key(tmp_path / name)
    one, other = (read_identity(tmp_path / name) for name in ("one.key", "other.key"))
    with pytest.raises(InputError, match=r"no statement\.sig"):
        verify_statement(tmp_path, one.public)
    sign_statement(tmp_path, one)
    with pytest.raises(InputError, match="a signature by SHA256"):
        verify_statement(tmp_path, other.public)
    for content in ("", "[]", '{"key": 1}', '{"key": "x", "signature": "?"}', '{"key": "x", "signature": "eA=="}'):
        (tmp_path / "statement.sig").write_text(content)
        with pytest.raises(InputError):
            verify_statement(tmp_path, one.public)


def test_a_statement_holds_when_the_ledger_has_gone_on(tmp_path: Path) -> None:
    from fedspd.privacy.accounting import Gaussian

    found = stated(tmp_path, "dp-sgd", privacy__epsilon=1.0)
    with Ledger(tmp_path / "ledger.db") as ledger:
        client = next(iter(ledger.accounts))
        granted = ledger.charge("later", 1, "dp-sgd", {client: Gaussian(1e6)}).granted
        assert granted == (client,)
        assert not against(found, ledger).differences


def test_what_was_charged_beyond_the_plan_raises_the_claim(tmp_path: Path) -> None:
    from fedspd.privacy.accounting import Gaussian, spent

    create_ledger(path := tmp_path / "ledger.db")
    with Ledger(path) as ledger:
        prepared = prepare_experiment(small_run("dp-sgd", run__seed=3), lambda: ledger, ledger_epsilon=3.0)
        run = execute(prepared)
        assert prepared.gate is not None
        first = with_ledger(claimed(run.record(), run.planned, run.model()), ledger, prepared.gate.run)
        client = first["budget"]["client"]
        assert ledger.charge(prepared.gate.run, 1, "evaluation", {client: Gaussian(4.0)}).granted
        second = with_ledger(first, ledger, prepared.gate.run)
        assert not against(second, ledger).differences
        assert "guarantee.epsilon" in {
            one.where for one in against({**second, "guarantee": first["guarantee"]}, ledger).differences
        }
    assert first["guarantee"]["epsilon"] == 1.0
    history = ledger.accounts[client].history
    assert second["guarantee"]["epsilon"] == spent(history, 1e-5).epsilon > 1.2
    assert second["meaning"]["odds_factor"] > first["meaning"]["odds_factor"]


def test_the_ledger_of_another_run_is_found(tmp_path: Path) -> None:
    found = stated(tmp_path, "dp-sgd")
    (tmp_path / "other").mkdir()
    stated(tmp_path / "other", "dp-sgd", run__rounds=2)
    with Ledger(tmp_path / "other" / "ledger.db") as ledger:
        places = {each.where for each in against(found, ledger).differences}
    assert {"ledger.head", "ledger.charges"} <= places


def test_the_command_says_what_differs(tmp_path: Path) -> None:
    found = stated(tmp_path, "dp-sgd")
    write_statement(tmp_path, found)
    ledger, file = str(tmp_path / "ledger.db"), str(tmp_path / "statement.json")
    done = CliRunner().invoke(app, ["ledger", "verify", ledger, "--against", file])
    assert (done.exit_code, "Agrees: " in done.output) == (0, True)
    found["budget"]["in_all"] /= 2
    write_statement(tmp_path, found)
    done = CliRunner().invoke(app, ["ledger", "verify", ledger, "--against", file, "--json"])
    assert done.exit_code == 2
    assert {one["where"] for one in json.loads(done.output)["differences"]} == {"budget.in_all", "budget.left"}
