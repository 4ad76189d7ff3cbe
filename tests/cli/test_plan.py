"""The command plan says what noise to expect, and which column brings how much of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fedspd.cli.commands.plan import register
from fedspd.data import read_schema
from fedspd.errors import InputError
from fedspd.privacy.accounting import Gaussian, spent

APP = typer.Typer(pretty_exceptions_enable=False)
register(APP)
SCHEMA = """
[target]
column = "outcome"
classes = ["home", "died"]

[[columns]]
name = "age"
bounds = [18, 110]

[[columns]]
name = "pain"
levels = ["none", "some", "much", "most"]
ordered = true

[[columns]]
name = "ward"
levels = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
"""
SITES = ("--clients", "5", "--records", "6500")
MANY = ("--clients", "100", "--records", "325")


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(APP, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def values(*arguments: str) -> dict[str, Any]:
    return json.loads(printed(*arguments, "--json"))


@pytest.fixture
def schema(tmp_path: Path) -> str:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return str(tmp_path / "schema.toml")


@pytest.mark.parametrize("setting", ["privacy.noise_multiplier=2", "privacy.budget=round"])
def test_a_plan_of_given_noise_or_of_a_budget_for_a_round_says_what_all_rounds_come_to(setting: str) -> None:
    plan = values(*SITES, "--rounds", "4", "--participants", "5", "--moments-share", "0", "--set", setting)
    rounds = [(Gaussian(plan["noise_multiplier"]), 4)]
    assert plan["epsilon"] == pytest.approx(spent(rounds, 1e-5).epsilon, rel=1e-6)
    assert plan["epsilon"] > 2


def test_a_plan_on_public_bounds_has_no_moments_to_pay_for() -> None:
    by_option, by_setting = values(*SITES, "--moments-share", "0"), values(*SITES, "--set", "data.scaling=min-max")
    assert by_option == by_setting != values(*SITES)


def test_without_columns_a_plan_says_what_noise_each_coordinate_gets() -> None:
    """2 G z / (m sqrt N) with z = 3.73 at (1, 1e-5)."""
    plan = values(*SITES, "--epsilon", "1", "--delta", "1e-5", "--clip-norm", "0.5")
    assert plan["noise_per_coordinate"] == pytest.approx(2 * 0.5 * 3.7307 / (6500 * 5**0.5), rel=1e-3)
    assert "columns" not in plan
    assert "noise per coordinate" in printed(*SITES)


def test_with_a_schema_it_chooses_by_the_budget_and_names_each_columns_share(schema: str) -> None:
    fine, coarse = (values(*SITES, "--schema", schema, "--epsilon", epsilon) for epsilon in ("3", "0.01"))
    told = [{one["column"]: one["encoding"] for one in plan["columns"]} for plan in (fine, coarse)]
    assert told[0] == {"age": "spline of 8 functions", "pain": "4 levels", "ward": "10 levels"}
    assert told[1] == {"age": "number", "pain": "number, by the order of 4 levels", "ward": "10 levels"}
    assert [one["coordinates"] for one in fine["columns"]] == [8, 4, 10]
    assert fine["columns"][2]["share_of_noise"] == pytest.approx(10 / 23)
    said = printed(*SITES, "--schema", schema, "--epsilon", "3")
    assert "Without ward, 13 of the 23 coordinates are left, and 43% of the noise variance is gone;" in said
    assert said.endswith("without a proof.\n")


def test_the_schema_it_writes_has_nothing_left_to_choose(schema: str, tmp_path: Path) -> None:
    finished = tmp_path / "finished.toml"
    plan = values(*SITES, "--schema", schema, "--epsilon", "3", "--write-schema", str(finished))
    assert [len(column.features) for column in read_schema(finished).inputs] == [8, 4, 10]
    again = values(*SITES, "--schema", str(finished), "--epsilon", "0.01")
    assert again["columns"] == plan["columns"]
    with pytest.raises(
        InputError,
        match=r"must be a new file, got .*finished.toml, which is there already; name another with --write-schema",
    ):
        printed(*SITES, "--schema", schema, "--write-schema", str(finished))


def test_a_data_set_is_planned_as_it_would_be_run() -> None:
    plan = values("--data", "adult", "--clients", "5", "--epsilon", "8")
    assert plan["coordinates"] == plan["features"] == 117
    assert sum(one["coordinates"] for one in plan["columns"]) == 116, "and a bias"


@pytest.mark.parametrize("trust", ["each-upload", "secure-sums"])
@pytest.mark.parametrize("name", ["dp-sgd", "noisy-prox-gd"])
def test_methods_without_a_figure_beside_the_papers_are_planned_from_counts_too(name: str, trust: str) -> None:
    plan = values(*MANY, "--trust", trust, "--set", f"algorithm.name={name}")
    assert (plan["algorithm"], plan["guarantee"], plan["participants"]) == (name, "proved", 20)
    assert ("epsilon_alone" in plan) == (trust == "secure-sums")
    assert "times_less_noise" not in plan


@pytest.mark.parametrize(("key", "own", "other"), [("batch_size", 20, 1), ("local_steps", 5, 325)])
def test_a_plan_from_counts_is_of_the_batches_and_steps_that_are_set(key: str, own: int, other: int) -> None:
    """It said that a round took whole shards in one step, whatever was set."""
    plan = values(*MANY, "--set", f"algorithm.{key}={own}")
    assert {plan["batch_size"], plan["local_steps"]} == {own, other}
    whole = values(*MANY)
    assert (whole["batch_size"], whole["local_steps"]) == (325, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*MANY, "--set", "algorithm.name=one-shot"), "a plan of pure privacy needs a table, .* got one-shot without"),
        ((*SITES, "--write-schema", "x.toml"), "needs columns to encode, got none; add --schema or --data"),
        ((*SITES, "--client", "ward"), "--target, --client and --person are of a table, got one without --data"),
        (("--data", "adult", "--records", "5"), "got --records beside it; leave it out"),
        (("--clients", "5"), "a plan needs --clients and --records, or --data"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        printed(*arguments)


def test_a_plan_says_whether_the_model_is_the_mean_of_all_rounds() -> None:
    assert values(*SITES, "--epsilon", "1")["averaging"] is True
    assert values(*SITES, "--epsilon", "0.01")["averaging"] is False
    assert values(*SITES, "--set", "algorithm.name=dp-admm")["averaging"] is None
