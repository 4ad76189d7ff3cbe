"""The `fedspd` command. Exit codes: 0 done, 2 bad input or a file that cannot be used, 130 Ctrl-C, 1 anything else."""

import os
import sys
from contextlib import ExitStack
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from fedspd import config as configuration
from fedspd.cli import data, deploy, methods, plan, privacy, report, studies, sweep
from fedspd.cli.progress import progress
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

RUN_EXAMPLES = """
Examples:

- `fedspd run`

- `fedspd run --ledger mine.sqlite --set privacy.epsilon=3`

- `fedspd run published --set privacy.epsilon=3 --set run.participants=50`

- `fedspd run my.toml --out runs/first --json`

- `fedspd run my.toml --engine jax --hosts 192.0.2.1:9000,2,0`
"""


@app.callback()
def fedspd() -> None:
    """Keep `run` a subcommand even while others are few."""


@app.command(epilog=RUN_EXAMPLES)
def run(
    source: Annotated[
        str, typer.Argument(metavar="[CONFIG.toml|PRESET]", help="a TOML file or a preset's name")
    ] = "proved",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="override a setting; repeatable"),
    ] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="run folder; default: a new one under runs/")] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            help="charge this ledger (see ledger create), shared with other runs; default: one in the run folder",
        ),
    ] = None,
    engine: Annotated[str | None, typer.Option(help="auto, numpy or jax; short for --set run.engine=...")] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS:PORT,COUNT,NUMBER",
            help="be process NUMBER (from 0) of COUNT that share this run's clients; process 0 listens and writes",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the summary as JSON and nothing else")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="print nothing but errors")] = False,
) -> None:
    """Train on simulated clients and write a run folder."""
    from fedspd import assemble, report
    from fedspd.privacy.ledger import Ledger, create_ledger
    from fedspd.results import RunFolder, to_json

    overrides = dict(configuration.parse_override(text) for text in settings or [])
    config = configuration.load(source, overrides | ({} if engine is None else {"run.engine": engine}))
    if hosts is not None and join_hosts(hosts, config, ledger) > 0:
        assemble.run(config)
        return
    target = RunFolder(folder or default_folder(source))
    with ExitStack() as stack:
        proved = config.algorithm.method.guarantee == "proved"
        shared = stack.enter_context(Ledger(ledger)) if ledger is not None and proved else None
        staging = cache(lambda: stack.enter_context(target.staged()))

        def open_ledger() -> Ledger:
            if shared is not None:
                return shared
            create_ledger(own := staging() / "ledger.sqlite")
            return stack.enter_context(Ledger(own))

        prepared = assemble.prepare_experiment(config, open_ledger if ledger is not None or proved else None)
        with progress("rounds", prepared.simulation.rounds, err, quiet=quiet or as_json) as advance:
            finished = assemble.execute(prepared, on_round=advance)
        report.save_run(staging(), finished.record(), finished.model())
    if as_json:
        print(to_json({**finished.summary.to_dict(), "folder": str(target.path)}))
    elif not quiet:
        out.print(report.summary_table(finished.summary))
        out.print(f"\nPrivacy: {report.privacy_statement(finished.summary)}")
        out.print(f"\nWritten to {target.path}", highlight=False, markup=False)


@app.command(epilog="Examples:\n\n- `fedspd settings`")
def settings() -> None:
    """List every setting with its default and meaning, and the presets."""
    table = Table("setting", "default", "meaning", box=None, pad_edge=False)
    for name, default, doc in describe():
        table.add_row(name, default, doc)
    out.print(table)
    out.print(f"\nPresets: {', '.join(configuration.presets())}")


privacy.register(app)
plan.register(app)
methods.register(app)
studies.register(app)
sweep.register(app)
report.register(app)
data.register(app)
deploy.register(app)


def join_hosts(hosts: str, config: configuration.Config, ledger: Path | None) -> int:
    """Meet the other processes; the number of this one."""
    from fedspd.engine.jax_engine.session import join

    try:
        coordinator, count, number = hosts.split(",")
        processes, process = int(count), int(number)
    except ValueError:
        raise InputError(f"--hosts must look like 192.0.2.1:9000,2,0, got {hosts!r}.") from None
    if not 0 <= process < processes:
        raise InputError(
            f"--hosts must number its processes from 0 to below their count, got {process} of {processes}."
        )
    if config.run.engine != "jax":
        raise InputError(f"--hosts needs the engine jax, got {config.run.engine!r}; add --engine jax.")
    if ledger is not None:
        raise InputError("--hosts cannot charge a ledger that other runs share, got --ledger; leave one of them out.")
    join(coordinator, processes, process)
    return process


def default_folder(source: str) -> Path:
    """A new folder under runs/, named by the time and the configuration."""
    return Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S-%f}-{Path(source).stem}"


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
