"""The command that trains: run."""

from contextlib import ExitStack
from datetime import datetime
from functools import cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedspd import config as configuration
from fedspd.cli import tables
from fedspd.cli.console import PlainConsole
from fedspd.cli.heads import HeadCommand, HeadFile, second_place, send_head
from fedspd.cli.progress import progress
from fedspd.errors import InputError
from fedspd.escaping import escaped

if TYPE_CHECKING:
    from fedspd.cli.attempt import Attempt
    from fedspd.results import RunRecord, Summary

out, err = PlainConsole(), PlainConsole(stderr=True)

EXAMPLES = """
Examples:

- `fedspd run`

- `fedspd run --data records.csv --schema schema.toml --target income --client hospital --epsilon 1 --delta 1e-6`

- `fedspd run --data 'sites/*.parquet' --schema schema.toml --test held-out.csv`

- `fedspd run --data digits --clients 10 --epsilon 3`

- `fedspd run --data digits --clients 10 --rounds-at-most 50`

- `fedspd run --trust secure-sums --set run.participants=100`

- `fedspd run --ledger mine.sqlite --set privacy.epsilon=3`

- `fedspd run --ledger mine.sqlite --head-file /mnt/other/heads --head-command '/usr/local/bin/keep-head --at backup'`

- `fedspd run published --set privacy.epsilon=3 --set run.participants=50`

- `fedspd run my.toml --out runs/first --json`

- `fedspd run my.toml --engine jax --hosts 192.0.2.1:9000,2,0`
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(run)


def run(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="[CONFIG.toml|PRESET]", help="a TOML file or a preset's name")
    ] = "proved",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="override a setting; repeatable"),
    ] = None,
    data: tables.Data = None,
    schema: tables.SchemaFile = None,
    target: tables.TargetColumn = None,
    client: tables.ClientColumn = None,
    person: tables.PersonColumn = None,
    clients: tables.Clients = None,
    test: tables.TestTable = None,
    test_share: tables.TestShare = None,
    epsilon: tables.Epsilon = None,
    delta: tables.Delta = None,
    trust: tables.Trust = None,
    rounds_at_most: Annotated[
        int | None, typer.Option(help="most rounds that the rule may choose; short for --set run.rounds_at_most=...")
    ] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="run folder; default: a new one under runs/")] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            help="charge this ledger (see ledger create), shared with other runs; default: one in the run folder",
        ),
    ] = None,
    ledger_epsilon: Annotated[
        float | None,
        typer.Option(help="with --ledger: what a client may spend in all runs on it; default: the epsilon of this one"),
    ] = None,
    head_file: HeadFile = None,
    head_command: HeadCommand = None,
    engine: Annotated[str | None, typer.Option(help="auto, numpy or jax; short for --set run.engine=...")] = None,
    checkpoint_every: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="keep where the run stands, so that fedspd resume can go on after a kill; default: 60 with a seed. A "
            "run without one keeps nothing unless this is given: its seed is then in the run folder, for you alone, "
            "until the run is done",
        ),
    ] = None,
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
    """Train on a table of your own, or on simulated clients, and write a run folder."""
    from fedspd import assemble
    from fedspd.cli.attempt import begin_attempt
    from fedspd.cli.commands.resume import resumed

    if ledger is None and ledger_epsilon is not None:
        raise InputError("--ledger-epsilon belongs to a ledger, got it without one; add --ledger or leave it out.")
    if ledger is None and (head_file is not None or head_command is not None):
        raise InputError("--head-file and --head-command belong to a ledger, got them without one; add --ledger.")
    if checkpoint_every is not None and not isfinite(checkpoint_every):
        raise InputError(
            f"--checkpoint-every must be a number of seconds, got {checkpoint_every}; say 60, or leave it out."
        )
    place = second_place(head_file, head_command)
    asked = tables.Asked(data, schema, target, client, clients, test, test_share, epsilon, delta, trust, person)
    options = tables.settings_of(asked)
    options |= {} if engine is None else {"run.engine": engine}
    options |= {} if rounds_at_most is None else {"run.rounds_at_most": rounds_at_most}
    overrides = configuration.parse_overrides(settings or [], options)
    config = configuration.load(source, overrides, tables.usual_of(asked))
    begun = resumed(context)
    if hosts is not None and not (begun and begun.paid) and join_hosts(hosts, config, ledger) > 0:
        assemble.run(config)
        return
    folder = folder or default_folder(source)
    attempt = begin_attempt(context, config, folder, checkpoint_every)
    try:
        with ExitStack() as stack:
            record = _trained(attempt, stack, config, ledger, ledger_epsilon, quiet or as_json)
            _draw(record, folder)
    except KeyboardInterrupt:
        if attempt.is_kept() and not quiet:
            err.print(f"fedspd: stopped; `fedspd resume {folder}` goes on from here.", highlight=False, markup=False)
        raise
    _tell(record.summary, folder, as_json, quiet)
    if ledger is not None:
        send_head(place, ledger)


def _trained(
    attempt: "Attempt",
    stack: ExitStack,
    config: configuration.Config,
    ledger: Path | None,
    ledger_epsilon: float | None,
    quiet: bool,
) -> "RunRecord":
    """The finished run, written to its folder, which the stack marks as done when it is left."""
    from fedspd import assemble
    from fedspd.data.source import OWN_SOURCES
    from fedspd.privacy.ledger import Ledger, create_ledger
    from fedspd.results import read_run, write_run, write_statement
    from fedspd.statement import claimed, with_ledger

    folder = cache(lambda: stack.enter_context(attempt.folder(private=config.data.name in OWN_SOURCES)))
    if attempt.work.paid:
        return read_run(folder())
    with ExitStack() as ledgers:  # closed, and so in one file, when the run is marked as paid for
        proved = config.algorithm.method.guarantee == "proved"
        shared = ledgers.enter_context(Ledger(ledger)) if ledger is not None and proved else None

        def open_ledger() -> Ledger:
            own = folder() / "ledger.sqlite"  # marked before anything is charged, to whatever ledger
            if shared is not None:
                return shared
            if not own.exists():
                create_ledger(own)
            return ledgers.enter_context(Ledger(own))

        opened = open_ledger if ledger is not None or proved else None
        prepared = assemble.prepare_experiment(
            config, opened, ledger_epsilon=ledger_epsilon, identity=attempt.identity
        )  # fmt: skip
        folder()
        with progress("rounds", prepared.simulation.rounds, err, quiet=quiet) as advance:
            finished = assemble.execute(prepared, on_round=advance, keeper=attempt.keeper())
        record, model = finished.record(), finished.model()
        write_run(folder(), record, model)
        statement, gate = claimed(record, finished.planned, model), prepared.gate
        write_statement(folder(), statement if gate is None else with_ledger(statement, gate.ledger, gate.run))
    attempt.keep()
    return record


def _draw(record: "RunRecord", folder: Path) -> None:
    """The picture comes last: the budget is spent, and what was paid for is kept whatever a picture meets."""
    from fedspd import report

    try:
        report.draw_run(folder, record)
    except (OSError, ValueError, RuntimeError, MemoryError) as error:  # not all: an interrupt may look like others
        words = f"fedspd: run.png could not be drawn ({error}); everything else is in {folder}."
        err.print(escaped(words), highlight=False, markup=False)


def _tell(summary: "Summary", folder: Path, as_json: bool, quiet: bool) -> None:
    from fedspd import report
    from fedspd.results import to_json

    if as_json:
        told = summary.to_dict() | ({"diverged": True} if summary.diverged else {})
        print(to_json(told | {"folder": str(folder)}))
    elif not quiet:
        out.print(report.summary_table(summary))
        out.print(f"\nPrivacy: {report.privacy_statement(summary)}")
        out.print(f"\nWritten to {folder}", highlight=False, markup=False)


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
    if config.run.seed is None:
        raise InputError("--hosts needs one seed for all processes, got none; add --set run.seed=NUMBER.")
    if ledger is not None:
        raise InputError("--hosts cannot charge a ledger that other runs share, got --ledger; leave one of them out.")
    join(coordinator, processes, process)
    return process


def default_folder(source: str) -> Path:
    """A new folder under runs/, named by the time and the configuration."""
    return Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S-%f}-{Path(source).stem}"
