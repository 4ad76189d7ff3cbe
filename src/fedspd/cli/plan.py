"""The command that proposes a plan: rounds, step sizes and noise, from public numbers alone."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fedspd import config
from fedspd.cli import tables
from fedspd.errors import InputError

out = Console(soft_wrap=True)

EXAMPLES = """
Examples:

- `fedspd plan --epsilon 1 --delta 1e-5 --clients 100 --records 325`

- `fedspd plan --data records.csv --schema schema.toml --client hospital --epsilon 1`

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
    epsilon: Annotated[float, typer.Option(help="total budget of every record")] = 1.0,
    delta: Annotated[float, typer.Option(help="failure probability")] = 1e-5,
    participants: Annotated[int | None, typer.Option(help="clients per round; default: a fifth")] = None,
    rounds: Annotated[int | None, typer.Option(help="communication rounds; default: by rule")] = None,
    rounds_at_most: Annotated[int | None, typer.Option(help="most rounds that the rule may choose")] = None,
    clip_norm: Annotated[
        float | None, typer.Option(help="record gradients are clipped to this norm; default: by rule")
    ] = None,
    moments_share: Annotated[float, typer.Option(help="part of the squared budget for noisy moments; 0: none")] = 0.1,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON and nothing else")] = False,
) -> None:
    """Propose batch size, local steps, rounds, step sizes and noise for a budget, without looking at any record."""
    from fedspd.assemble.agreement.planning import plan_of, proposed_plan
    from fedspd.results import to_json

    if data is not None:
        asked = tables.Asked(data, schema, target, client, clients, epsilon=epsilon, delta=delta)
        wanted = {"run.participants": participants, "run.rounds": rounds, "problem.clip_norm": clip_norm}
        wanted |= {"data.moments_share": moments_share} if moments_share else {"data.scaling": "min-max"}
        wanted |= {} if rounds_at_most is None else {"run.rounds_at_most": rounds_at_most}
        if records is not None:
            raise InputError("a table says how many records each client has, got --records beside it; leave it out.")
        proposed = plan_of(config.load("proved", tables.settings_of(asked) | wanted, tables.usual_of(asked)))
    elif clients is None or records is None:
        raise InputError("a plan needs --clients and --records, or --data, got neither; give one or the other.")
    else:
        proposed = proposed_plan(
            clients, records, epsilon, delta, participants or max(1, clients // 5), rounds, clip_norm, moments_share,
            rounds_at_most,
        )  # fmt: skip
    if as_json:
        print(to_json(proposed))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    for name, value in proposed.items():
        if value is None:
            continue
        table.add_row(name.replace("_", " "), f"{value:.5g}" if isinstance(value, float) else str(value))
    out.print(table)
    if "times_less_noise" not in proposed:
        return
    out.print(
        f"\nAt the same total budget and step size the paper's formulas put {proposed['times_less_noise']:.0f} "
        "times as much noise on the averaged model, without a proof.",
        highlight=False,
    )
