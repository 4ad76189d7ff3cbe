"""The `fedspd` command. Exit codes: 0 done, 2 bad input or a file that cannot be used, 130 Ctrl-C, 1 anything else."""

import os
import sys
from typing import NoReturn

import typer
from rich.console import Console
from rich.table import Table

from fedspd import config as configuration
from fedspd.cli import data, deploy, export, methods, plan, predict, privacy, report, run, studies, sweep
from fedspd.config import describe
from fedspd.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Private federated learning by primal-dual optimization.",
    epilog="Examples:\n\n- `fedspd run`\n\n- `fedspd plan --clients 100 --records 325`\n\n- `fedspd settings`",
)
out, err = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)


@app.callback()
def fedspd() -> None:
    """Keep `run` a subcommand even while others are few."""


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
predict.register(app)
export.register(app)
data.register(app)
deploy.register(app)


def main() -> None:
    """Run the command; bad input is one sentence and exit code 2, never a traceback."""
    try:
        app()
    except InputError as error:
        _refuse(str(error))
    except KeyboardInterrupt:
        _leave(130)
    except BrokenPipeError:  # who read what was printed has gone
        _leave(1)
    except OSError as error:
        file = f"{error.filename}: " if error.filename else ""
        _refuse(f"{file}{error.strerror or error}")


def _refuse(sentence: str) -> NoReturn:
    err.print(f"fedspd: {sentence}", style="red", highlight=False, markup=False)
    _leave(2)


def _leave(code: int) -> NoReturn:
    """Exit, and say nothing of what can no longer be printed."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
