"""The command `data describe`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from fedspd.cli.console import PlainConsole
from fedspd.cli.door import for_programs
from fedspd.cli.events import AsJson
from fedspd.errors import InputError
from fedspd.escaping import escaped

if TYPE_CHECKING:
    from fedspd.data.describe.quality import Quality

err = PlainConsole(stderr=True)
DESCRIBE_EXAMPLES = """
Examples:

- `fedspd data describe records.csv --target income --client hospital > schema.toml`

- `fedspd data describe visits.csv --target stay --client hospital --person patient_id`

- `fedspd data describe 'sites/*.parquet' --target stay` (a file for each client)

- `fedspd data describe records.csv --schema schema.toml`
"""


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the program's."""
    data = typer.Typer(no_args_is_help=True, help="Your own table: a draft of its schema, and what is odd about it.")
    data.callback()(lambda: None)  # keeps `describe` a subcommand while it is the only one
    data.command(epilog=DESCRIBE_EXAMPLES)(describe)
    app.add_typer(data, name="data")


def describe(
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="CSV (also in gzip) or Parquet files, or patterns of them")
    ],
    target: Annotated[str | None, typer.Option(help="the column to be predicted")] = None,
    client: Annotated[
        str | None, typer.Option(help="the column that names each record's client; default: every file is a client")
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="the column that says whom a record is about, where a person may have several")
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="report against this schema, and draft none")] = None,
    as_json: AsJson = False,
) -> None:
    """Draft a schema of a table (standard output) and report what its columns hold (standard error, for you alone)."""
    from fedspd.data import read_schema
    from fedspd.data.describe.draft import Draft, describe_table
    from fedspd.data.describe.quality import quality
    from fedspd.results import to_json

    if (target is None) == (schema is None) or ((client or person) is not None and schema is not None):
        raise InputError("expected --target for a draft or --schema for a report alone, got both or none; give one.")
    found = describe_table(tables, target, client, person) if target is not None else None
    found = found or Draft("", quality(tables, read_schema(schema or "")))
    if as_json:
        columns = {name: {**one._asdict()} for name, one in found.report.items()}
        print(to_json({"schema": found.text or None, "columns": columns}))
        return
    for_programs().write(found.text)
    err.print(_report(found.report))
    err.print("\nThese counts come from the records without noise: keep them to yourself.", style="bold")


def _report(report: Mapping[str, "Quality"]) -> Table:
    heads = ("column", "kind", "rows", "missing", "unreadable", "distinct", "outside", "unknown", "note")
    table = Table(*(Column(head, no_wrap=head != "note") for head in heads), box=None, pad_edge=False)
    for name, one in report.items():
        kind, *counts, note = one
        table.add_row(escaped(name), kind, *("" if count is None else str(count) for count in counts), escaped(note))
    return table
