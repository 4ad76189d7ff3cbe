"""The `fedspd` command. What its exit codes mean stands in `door`."""

from typing import Annotated

import typer
from rich.table import Table

from fedspd import __version__
from fedspd import config as configuration
from fedspd.cli.commands import (
    audit,
    data,
    deploy,
    evaluate,
    export,
    methods,
    plan,
    predict,
    privacy,
    report,
    resume,
    run,
    statement,
    studies,
    sweep,
)
from fedspd.cli.console import PlainConsole
from fedspd.cli.door import guarded
from fedspd.config import describe

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Private federated learning by primal-dual optimization.",
    epilog="Examples:\n\n- `fedspd run`\n\n- `fedspd plan --clients 100 --records 325`\n\n- `fedspd settings`",
)
out = PlainConsole()


def _print_version(asked: bool) -> None:
    if asked:
        print(f"fedspd {__version__}")
        raise typer.Exit


@app.callback()
def fedspd(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and end")
    ] = False,
) -> None:
    """What belongs to no command."""


@app.command(epilog="Examples:\n\n- `fedspd settings`")
def settings() -> None:
    """List every setting with its default and meaning, and the presets."""
    table = Table("setting", "default", "meaning", box=None, pad_edge=False)
    for name, default, doc in describe():
        table.add_row(name, default, doc)
    out.print(table)
    out.print(f"\nPresets: {', '.join(configuration.presets())}")


run.register(app)
privacy.register(app)
plan.register(app)
methods.register(app)
studies.register(app)
sweep.register(app)
report.register(app)
statement.register(app)
audit.register(app)
predict.register(app)
evaluate.register(app)
export.register(app)
data.register(app)
deploy.register(app)
resume.register(app)


def main() -> None:
    """Run the command; bad input is one sentence and exit code 2, never a traceback."""
    guarded(lambda: app(prog_name="fedspd"))
