"""The commands `ledger create`, `ledger show` and `ledger verify`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fedspd.cli.console import PlainConsole
from fedspd.cli.events import (
    AsJson,
    Contraction,
    Drawn,
    LocalSteps,
    MaxBatch,
    Rate,
    Records,
    SamplingKind,
    event_of,
)
from fedspd.errors import InputError
from fedspd.escaping import escaped

if TYPE_CHECKING:
    from fedspd.privacy.ledger import Statement
    from fedspd.statement import Comparison

out = PlainConsole()
CREATE_EXAMPLES = """
Examples:

- `fedspd ledger create ledger.db`
"""
SHOW_EXAMPLES = """
Examples:

- `fedspd ledger show ledger.db`

- `fedspd ledger show ledger.db --long`

- `fedspd ledger show ledger.db --sampling whole-shard --noise-multiplier 14.25`
"""
VERIFY_EXAMPLES = """
Examples:

- `fedspd ledger verify ledger.db`

- `fedspd ledger verify ledger.db --against runs/first/statement.json`
"""
FEW, MOST_LINES = 5, 20  # clients that are told at length, and that are told at all, unless asked for
File = Annotated[Path, typer.Argument(metavar="FILE", help="a ledger")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the program's."""
    ledger = typer.Typer(no_args_is_help=True, help="What clients have spent, and whether the file is intact.")
    ledger.command(epilog=CREATE_EXAMPLES)(create)
    ledger.command(epilog=SHOW_EXAMPLES)(show)
    ledger.command(epilog=VERIFY_EXAMPLES)(verify)
    app.add_typer(ledger, name="ledger")


def create(file: Annotated[Path, typer.Argument(metavar="FILE", help="where no ledger is and never was")]) -> None:
    """Create an empty ledger, once; keep the file and back it up, for it alone knows what is spent."""
    from fedspd.privacy.ledger import create_ledger

    create_ledger(file)
    out.print(f"Created {file}. This is done once: keep the file and back it up.", highlight=False, markup=False)


def show(
    file: File,
    sampling: Annotated[SamplingKind | None, typer.Option(help="ask how many more rounds of this kind fit")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="of the rounds asked about")] = None,
    records: Records = None,
    drawn: Drawn = None,
    rate: Rate = None,
    local_steps: LocalSteps = 1,
    contraction: Contraction = 0.0,
    max_batch: MaxBatch = None,
    long: Annotated[bool, typer.Option("--long", help="every client with every kind of release")] = False,
    as_json: AsJson = False,
) -> None:
    """Print each client's budget, what it has spent, and how many more rounds fit."""
    from fedspd.privacy import ledger as ledgers
    from fedspd.privacy.accounting.limits import require_contraction
    from fedspd.results import to_json

    if (sampling is None) != (noise_multiplier is None):
        raise InputError("expected --sampling and --noise-multiplier together, got one of them; add the other.")
    require_contraction(contraction)
    event = None
    if sampling is not None and noise_multiplier is not None:
        event = event_of(sampling, records, drawn, rate, local_steps, contraction, max_batch, noise_multiplier)
    with ledgers.Ledger(file) as ledger:
        statements, head = ledgers.show(ledger, event), ledger.head
    if as_json:
        clients = [statement.as_dict() for statement in statements]
        print(to_json({"rows": head.rows, "head": head.hash, "clients": clients}))
        return
    long = long or len(statements) <= FEW
    out.print(_statements(statements) if long else _short(statements))
    if not long and len(statements) > MOST_LINES:
        out.print(f"And {len(statements) - MOST_LINES} clients that spent no more; --long lists all.", highlight=False)
    out.print("\nSpent: all events recomposed. Guaranteed, however the rounds were chosen: the budget.")
    if any(statement.epsilon_alone is not None for statement in statements):
        out.print(
            "Where clients share noise, both hold if no more members of a cohort collude than their run counted on. "
            "Alone: what the same events cost if server and all other members do.",
            highlight=False,
        )
    if long and any(statement.reserved_delta for statement in statements):
        out.print(
            "Reserved: the part of delta that is kept for the plan the client was entered with. What departs from the "
            "plan has the rest, and may be refused before the budget is spent."
        )


def verify(
    file: File,
    head: Annotated[str | None, typer.Option(help="a head noted earlier, which the ledger must still contain")] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="STATEMENT", help="a statement.json, whose numbers are recomputed by a second accountant"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that a ledger is intact and print its head, to be noted elsewhere; hold a statement against it."""
    from fedspd.privacy import ledger as ledgers
    from fedspd.results import to_json

    found = ledgers.verify(file, head)
    compared = None if against is None else _compared(file, against)
    if as_json:
        told = {} if compared is None else {"recomputed": compared.looked_at, "differences": compared.as_dicts()}
        print(to_json(found._asdict() | told))
    else:
        out.print(f"Intact: {found.rows} rows, {found.clients} clients, {found.charges} charges.", highlight=False)
        out.print(f"Head: {found.head}", highlight=False)
        if compared is not None:
            _tell(compared)
    if compared is not None and compared.differences:
        raise typer.Exit(2)


def _compared(file: Path, against: Path) -> "Comparison":
    from fedspd.privacy.ledger import Ledger
    from fedspd.results import read_statement_file
    from fedspd.statement import against as held
    from fedspd.statement import kept

    statement = read_statement_file(against)
    with Ledger(file) as ledger:
        found = held(statement, ledger)
    kept(found, statement, against.parent)
    return found


def _tell(compared: "Comparison") -> None:
    if not compared.differences:
        out.print(f"Agrees: {compared.looked_at} numbers of the statement, recomputed.", highlight=False)
        out.print("Texts and versions are in no ledger: only a signature holds them.", highlight=False)
        return
    table = Table("differs", "statement", "recomputed", box=None, pad_edge=False)
    for one in compared.differences:
        table.add_row(*(escaped(str(part)) for part in one))
    out.print(table)
    if compared.is_outdated():
        out.print("Its run was charged again since: make it anew with `fedspd statement RUN --ledger LEDGER`.")


def _short(statements: Sequence["Statement"]) -> Table:
    """A line for each of the clients that spent most."""
    from fedspd.report.numbers import rounded

    table = Table("client", "budget", "spent", "covered by", "charges", "still fits", box=None, pad_edge=False)
    for one in sorted(statements, key=lambda one: one.epsilon, reverse=True)[:MOST_LINES]:
        charges = sum(each.times for each in one.charged)
        fits = max(one.room.values(), default=None)
        alone = "" if one.epsilon_alone is None else f"\nalone {rounded(one.epsilon_alone, up=True)}"
        most = "" if one.budget.epsilon_alone is None else f"\nalone {one.budget.epsilon_alone:g}"
        table.add_row(
            escaped(one.client), f"({one.budget.epsilon:g}, {one.budget.delta:g}){most}",
            rounded(one.epsilon, up=True) + alone, (one.rule or "nothing") if one.charged else "",
            str(charges), "" if fits is None else f"at most {fits}",
        )  # fmt: skip
    return table


def _statements(statements: Sequence["Statement"]) -> Table:
    from fedspd.privacy.ledger import describe
    from fedspd.report.numbers import reported, rounded

    table = Table("client", "budget", "spent", "covered by", "charged", "still fits", box=None, pad_edge=False)
    for one in statements:
        budget = f"({one.budget.epsilon:g}, {one.budget.delta:g}) {one.budget.relation}, {one.budget.unit}"
        charged = [f"{each.times} x {describe(each.event)} in {escaped(each.run)}" for each in one.charged]
        fits = [f"{count} x {describe(event)}" for event, count in one.room.items()]
        rule = (one.rule or "nothing") if one.charged else ""
        if one.reserved_delta:
            budget += f"\nreserved {reported(one.reserved_delta, up=True):g}"
        if one.budget.epsilon_alone is not None:
            budget += f"\nalone {one.budget.epsilon_alone:g}"
        spent = rounded(one.epsilon, up=True)
        if one.epsilon_alone is not None:
            spent += f"\nalone {rounded(one.epsilon_alone, up=True)}"
        table.add_row(escaped(one.client), budget, spent, rule, "\n".join(charged), "\n".join(fits))
    return table
