"""The command that proposes a plan: rounds, step sizes and noise, from public numbers alone."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

out = Console(soft_wrap=True)

EXAMPLES = """
Examples:

- `fedspd plan --epsilon 1 --delta 1e-5 --clients 100 --records 325`

- `fedspd plan --epsilon 0.1 --clients 1000 --records 50 --participants 100 --json`
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(plan)


def plan(
    clients: Annotated[int, typer.Option(help="number of clients")],
    records: Annotated[int, typer.Option(help="records per client")],
    epsilon: Annotated[float, typer.Option(help="total budget of every record")] = 1.0,
    delta: Annotated[float, typer.Option(help="failure probability")] = 1e-5,
    participants: Annotated[int | None, typer.Option(help="clients per round; default: a fifth")] = None,
    rounds: Annotated[int | None, typer.Option(help="communication rounds; default: by rule")] = None,
    clip_norm: Annotated[float, typer.Option(help="record gradients are clipped to this norm")] = 0.5,
    moments_share: Annotated[float, typer.Option(help="part of the squared budget for noisy moments; 0: none")] = 0.1,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON and nothing else")] = False,
) -> None:
    """Propose batch size, local steps, rounds, step sizes and noise for a budget, without looking at any record."""
    from fedspd.assemble.planning import proposed_plan
    from fedspd.results import to_json

    proposed = proposed_plan(
        clients, records, epsilon, delta, participants or max(1, clients // 5), rounds, clip_norm, moments_share
    )
    if as_json:
        print(to_json(proposed))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    for name, value in proposed.items():
        table.add_row(name.replace("_", " "), f"{value:.5g}" if isinstance(value, float) else str(value))
    out.print(table)
    out.print(
        f"\nAt the same total budget and step size the paper's formulas put {proposed['times_less_noise']:.0f} "
        "times as much noise on the averaged model, without a proof.",
        highlight=False,
    )
