"""The command that proposes a plan: rounds, step sizes and noise, from public numbers alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table

from fedspd import config
from fedspd.cli import tables
from fedspd.cli.console import PlainConsole
from fedspd.errors import InputError
from fedspd.escaping import escaped

if TYPE_CHECKING:
    from fedspd.assemble.expected import Expected
    from fedspd.data import Schema
    from fedspd.results import NewFile

out = PlainConsole()

EXAMPLES = """
Examples:

- `fedspd plan --epsilon 1 --delta 1e-5 --clients 100 --records 325`

- `fedspd plan --data records.csv --schema schema.toml --client hospital --epsilon 1`

- `fedspd plan --schema schema.toml --clients 5 --records 6500 --epsilon 1 --write-schema chosen.toml`

- `fedspd plan --clients 100 --records 325 --participants 100 --trust secure-sums --set privacy.threshold=80`

- `fedspd plan --epsilon 0.1 --clients 1000 --records 50 --participants 100 --json`
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(plan)


def plan(
    clients: Annotated[int | None, typer.Option(help="number of clients")] = None,
    records: Annotated[int | None, typer.Option(help="records per client")] = None,
    data: tables.Data = None,
    schema: tables.SchemaFile = None,
    target: tables.TargetColumn = None,
    client: tables.ClientColumn = None,
    person: tables.PersonColumn = None,
    epsilon: Annotated[float | None, typer.Option(help="total budget of every record; default: 1")] = None,
    delta: Annotated[float | None, typer.Option(help="failure probability; default: 1e-5")] = None,
    trust: tables.Trust = None,
    participants: Annotated[int | None, typer.Option(help="clients per round; default: a fifth")] = None,
    rounds: Annotated[int | None, typer.Option(help="communication rounds; default: by rule")] = None,
    rounds_at_most: Annotated[int | None, typer.Option(help="most rounds that the rule may choose")] = None,
    clip_norm: Annotated[
        float | None, typer.Option(help="record gradients are clipped to this norm; default: by rule")
    ] = None,
    moments_share: Annotated[
        float | None, typer.Option(help="part of the squared budget for noisy moments; 0: none; default: 0.1")
    ] = None,
    write_schema: Annotated[
        Path | None, typer.Option(help="write the schema here with the chosen encoding, such as for real sites")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="plan with this setting; repeatable"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON and nothing else")] = False,
) -> None:
    """Propose batch size, local steps, rounds, step sizes and noise for a budget, without looking at any record."""
    from fedspd.results import NewFile, to_json

    target_file = None if write_schema is None else NewFile(write_schema, "--write-schema")
    asked = tables.Asked(
        data, schema, target, client, clients, epsilon=epsilon, delta=delta, trust=trust, person=person
    )
    options = {
        "run.rounds": rounds, "run.participants": participants, "run.rounds_at_most": rounds_at_most,
        "problem.clip_norm": clip_norm, "data.moments_share": moments_share or None,
        "data.scaling": "min-max" if moments_share == 0 else None,
    }  # fmt: skip
    wanted = Wanted({name: value for name, value in options.items() if value is not None}, settings or [])
    proposed, expected = _of_counts(asked, wanted, records) if data is None else _of_data(asked, wanted, records)
    if target_file is not None:
        _write(target_file, expected.schema)
    if as_json:
        print(to_json({**proposed, **expected.told}))
    else:
        _tell(proposed, expected.told)


Plan = tuple[Mapping[str, Any], "Expected"]


class Wanted(NamedTuple):
    """What the options of a plan say beside those of tables, and what was set."""

    options: Mapping[str, Any]
    settings: list[str]

    def beside(self, asked: tables.Asked) -> dict[str, Any]:
        """All settings, every one once; rounds and who takes part are for the rule to say, and not for the preset."""
        found = config.parse_overrides(self.settings, {**tables.settings_of(asked), **self.options})
        return {"run.rounds": None, "run.participants": None, "problem.clip_norm": None, **found}


def _of_data(asked: tables.Asked, wanted: Wanted, records: int | None) -> Plan:
    from fedspd.assemble.agreement.planning import plan_of
    from fedspd.assemble.expected import expected_of
    from fedspd.data import SOURCES

    if records is not None:
        raise InputError("a table says how many records each client has, got --records beside it; leave it out.")
    loaded = config.load("proved", wanted.beside(asked), tables.usual_of(asked))
    cells = SOURCES[loaded.data.name].read(loaded.data.source)
    return plan_of(loaded, cells), expected_of(loaded, cells)


def _of_counts(asked: tables.Asked, wanted: Wanted, records: int | None) -> Plan:
    """For records that are elsewhere."""
    from fedspd.assemble.agreement.planning import proposed_plan
    from fedspd.assemble.expected import expected_noise
    from fedspd.data import read_schema

    clients = asked.clients
    if clients is None or records is None:
        raise InputError("a plan needs --clients and --records, or --data, got neither; give one or the other.")
    if asked.target is not None or asked.client is not None or asked.person is not None:
        raise InputError("--target, --client and --person are of a table, got one without --data; leave it out.")
    settings = wanted.beside(asked._replace(schema=None))
    if settings["run.participants"] is None:
        settings["run.participants"] = max(1, clients // 5)
    loaded = config.load("proved", settings)
    declared = None if asked.schema is None else read_schema(asked.schema)
    return proposed_plan(loaded, records), expected_noise(loaded, declared, clients * records)


def _write(target: "NewFile", schema: "Schema | None") -> None:
    from fedspd.data import schema_text

    if schema is None:
        raise InputError("--write-schema needs columns to encode, got none; add --schema or --data.")
    target.write(schema_text(schema).encode())


def _tell(proposed: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    numbers = {**proposed, **{name: value for name, value in expected.items() if name != "columns"}}
    for name, value in numbers.items():
        if value is not None:
            table.add_row(name.replace("_", " "), f"{value:.5g}" if isinstance(value, float) else str(value))
    out.print(table)
    if "columns" in expected:
        _tell_columns(expected["columns"], expected["coordinates"])
    if "times_less_noise" in proposed:
        out.print(
            f"\nAt the same total budget and step size the paper's formulas put {proposed['times_less_noise']:.0f} "
            "times as much noise on the averaged model, without a proof.",
            highlight=False,
        )


def _tell_columns(columns: list[dict[str, Any]], coordinates: int) -> None:
    """Which column brings how much of the noise, and what could be done about the one that brings most."""
    table = Table(box=None, pad_edge=False)
    for title in ("column", "encoding", "coordinates", "share of noise"):
        table.add_column(title, justify="right" if title in ("coordinates", "share of noise") else "left")
    for one in columns:
        table.add_row(escaped(one["column"]), one["encoding"], str(one["coordinates"]), f"{one['share_of_noise']:.1%}")
    out.print()
    out.print(table)
    most = max(columns, key=lambda one: one["coordinates"])
    if most["coordinates"] > 1:
        out.print(
            f"\nEvery coordinate carries the same noise. Without {escaped(most['column'])}, "
            f"{coordinates - most['coordinates']} of the {coordinates} coordinates are left, and "
            f"{most['share_of_noise']:.0%} of the noise variance is gone; in half as many pieces, "
            f"{most['saved_by_half_as_many']:.0%} is.",
            highlight=False,
            markup=False,
        )
