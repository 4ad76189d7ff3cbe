"""The command data describe: a schema to standard output, counts to standard error, and one JSON object of both."""

import json
import tomllib
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from fedspd.cli.commands.data import register
from fedspd.data.schema import parse_schema
from fedspd.errors import InputError

APP = typer.Typer(pretty_exceptions_enable=False)
register(APP)
TABLE = "hospital,age,ward,outcome\nnorth,64,surgery,home\nsouth,200,medicine,died\nsouth,old,,home\n"


def called(*arguments: object) -> Result:
    result = CliRunner().invoke(
        APP, ["data", "describe", *map(str, arguments)], env={"COLUMNS": "120"}, catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(TABLE.replace("old", "30"))
    return tmp_path / "t.csv"


def test_what_is_printed_is_a_schema_and_what_else_is_told_goes_to_standard_error(table: Path) -> None:
    result = called(table, "--target", "outcome", "--client", "hospital")
    schema = parse_schema(tomllib.loads(result.stdout))
    assert schema.client == "hospital"
    assert [column.name for column in schema.inputs] == ["age", "ward"]
    told = [line.split() for line in result.stderr.splitlines()]
    assert told[0] == ["column", "kind", "rows", "missing", "unreadable", "distinct", "outside", "unknown", "note"]
    assert ["ward", "levels", "3", "1", "0", "2", "0", "0"] in told
    assert "keep them to yourself" in result.stderr


def test_json_is_one_object_with_both(table: Path) -> None:
    result = called(table, "--target", "outcome", "--json")
    found = json.loads(result.stdout)
    assert parse_schema(tomllib.loads(found["schema"])).client is None
    assert found["columns"]["ward"] == {
        "kind": "levels", "rows": 3, "missing": 1, "unreadable": 0, "distinct": 2, "outside": 0, "unknown": 0,
        "note": "",
    }  # fmt: skip
    assert not result.stderr


def test_against_a_schema_there_is_a_report_and_no_draft(tmp_path: Path, table: Path) -> None:
    schema = tmp_path / "schema.toml"
    schema.write_text(called(table, "--target", "outcome", "--client", "hospital").stdout.replace("200.0", "150.0"))
    (tmp_path / "t.csv").write_text(TABLE)
    result = called(table, "--schema", schema)
    assert result.stdout == ""
    assert ["age", "numbers", "3", "0", "1", "2", "1", "0"] in [line.split() for line in result.stderr.splitlines()]
    found = json.loads(called(table, "--schema", schema, "--json").stdout)
    assert found["schema"] is None
    assert found["columns"]["age"]["unreadable"] == 1


@pytest.mark.parametrize(
    "arguments", [[], ["--target", "outcome", "--schema", "s"], ["--client", "hospital", "--schema", "s"]]
)
def test_a_draft_needs_a_target_and_a_report_a_schema(table: Path, arguments: list[str]) -> None:
    with pytest.raises(InputError, match="expected --target for a draft or --schema for a report alone"):
        called(table, *arguments)
