"""The command `export`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedspd.cli.commands.predict import Average, Run
from fedspd.cli.console import PlainConsole
from fedspd.cli.events import AsJson

out = PlainConsole()
EXAMPLES = """
Examples:

- `fedspd export runs/first --to csv --out coefficients.csv`

- `fedspd export runs/first --to sklearn --out model.joblib`

- `fedspd export runs/first --to onnx --out model.onnx`
"""


class Form(StrEnum):
    """What another program reads."""

    sklearn = "sklearn"
    onnx = "onnx"
    csv = "csv"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(export)


def export(
    run: Run,
    form: Annotated[
        Form, typer.Option("--to", help="a pipeline of scikit-learn, a graph of ONNX, or a table of coefficients")
    ],
    file: Annotated[Path, typer.Option("--out", help="a new file")],
    average: Average = False,
    as_json: AsJson = False,
) -> None:
    """Write a trained model in a form that other programs read."""
    from fedspd.export import exported
    from fedspd.results import NewFile, to_json
    from fedspd.scoring.model import load_model

    target = NewFile(file)
    made = exported(load_model(run, average), form.value)
    target.write(made.content)
    if as_json:
        print(to_json({"file": str(file), "form": form.value, "notes": made.notes}))
        return
    for note in made.notes:
        out.print(note, highlight=False, markup=False)
    out.print(f"Written to {file}", highlight=False, markup=False)
