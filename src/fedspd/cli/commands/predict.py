"""The command `predict`."""

import io
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from fedspd.cli.console import PlainConsole
from fedspd.cli.door import for_programs
from fedspd.cli.events import AsJson
from fedspd.errors import InputError
from fedspd.escaping import write_csv

if TYPE_CHECKING:
    from fedspd.scoring.prediction import Predictions

err = PlainConsole(stderr=True)
EXAMPLES = """
Examples:

- `fedspd predict runs/first new.csv --out predictions.csv`

- `fedspd predict runs/first 'wards/*.parquet' --id patient --id ward > predictions.csv`
"""
Run = Annotated[Path, typer.Argument(metavar="RUN", help="a run folder")]
Average = Annotated[bool, typer.Option("--average", help="the mean of the last rounds' models, not the last one")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(predict)


def predict(
    run: Run,
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="CSV (also in gzip) or Parquet files, or patterns of them")
    ],
    file: Annotated[Path | None, typer.Option("--out", help="a new CSV file; default: standard output")] = None,
    kept: Annotated[
        list[str] | None, typer.Option("--id", metavar="COLUMN", help="copy this column of the table; repeatable")
    ] = None,
    average: Average = False,
    as_json: AsJson = False,
) -> None:
    """Apply a trained model to the records of a table: a row for each, in their order."""
    from fedspd.results import OWNER_ONLY, NewFile, to_json
    from fedspd.scoring.model import load_model
    from fedspd.scoring.prediction import predict_table

    if as_json and file is None:
        raise InputError("--json needs --out, got it without: both would print to standard output; add --out.")
    target = None if file is None else NewFile(file, mode=OWNER_ONLY)
    made = predict_table(load_model(run, average), tables, kept or ())
    if target is None:
        _write(made, for_programs())
    else:
        _write(made, content := io.StringIO())
        target.write(content.getvalue().encode())
    odd = {name: one.odd for name, one in made.quality.items()}
    if as_json:
        print(to_json({"rows": made.found.rows, "columns": odd, "file": str(file)}))
        return
    for name, counts in odd.items():
        if counts:
            words = ", ".join(f"{count} {what}" for what, count in counts.items())
            err.print(f"Column {name!r}: {words}.", highlight=False, markup=False)
    if file is not None:
        err.print(f"{made.found.rows} predictions, written to {file}", highlight=False, markup=False)


def _write(made: "Predictions", file: TextIO) -> None:
    write_csv(file, chain([made.header], made.rows()))
