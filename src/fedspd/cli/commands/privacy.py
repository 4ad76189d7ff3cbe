"""The commands about privacy: `account`, `calibrate` and, from `cli.ledger`, `ledger`."""

import math
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fedspd.cli.commands import ledger
from fedspd.cli.console import PlainConsole
from fedspd.cli.events import (
    AsJson,
    Contraction,
    Drawn,
    LocalSteps,
    MaxBatch,
    Rate,
    Records,
    SamplingOption,
    event_of,
)
from fedspd.errors import InputError

if TYPE_CHECKING:
    from fedspd.privacy.accounting import Accountant, Event

out = PlainConsole()
ACCOUNT_EXAMPLES = """
Examples:

- `fedspd account --sampling without-replacement --records 325 --drawn 50 --noise-multiplier 5.03
  --participations 20 --delta 1e-4`

- `fedspd account --sampling whole-shard --noise-multiplier 14.25 --participations 20 --delta 1e-4 --json`
"""
CALIBRATE_EXAMPLES = """
Examples:

- `fedspd calibrate --sampling without-replacement --records 325 --drawn 50 --participations 20
  --epsilon 1 --delta 1e-4`

- `fedspd calibrate --sampling poisson --rate 0.15 --participations 20 --epsilon 1 --delta 1e-5 --json`
"""


class By(StrEnum):
    """The accountants of the command line: `tight` is the best proof there is, `pld` its other name."""

    tight = "tight"
    pld = "pld"
    rdp = "rdp"
    published = "published"


Participations = Annotated[int, typer.Option(help="rounds the client takes part in")]
Delta = Annotated[float, typer.Option(help="of all rounds together")]
ByOption = Annotated[By, typer.Option("--accountant", help="published: the paper's formula, which is not proved")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the program's."""
    app.command(epilog=ACCOUNT_EXAMPLES)(account)
    app.command(epilog=CALIBRATE_EXAMPLES)(calibrate)
    ledger.register(app)


def account(
    sampling: SamplingOption,
    noise_multiplier: Annotated[float, typer.Option(help="noise standard deviation over sensitivity")],
    participations: Participations,
    delta: Delta,
    records: Records = None,
    drawn: Drawn = None,
    rate: Rate = None,
    local_steps: LocalSteps = 1,
    contraction: Contraction = 0.0,
    max_batch: MaxBatch = None,
    accountant: ByOption = By.tight,
    as_json: AsJson = False,
) -> None:
    """Print the epsilon of a client that takes part in a number of rounds."""
    from fedspd.privacy.accounting import spent
    from fedspd.report.numbers import reported

    event = event_of(sampling, records, drawn, rate, local_steps, contraction, max_batch, noise_multiplier)
    if accountant is By.published:
        total = _classic(noise_multiplier, delta) * _growth(event, participations)
        found = {"epsilon": total, "lower_bound": None, "accountant": "published"}
    else:
        bound = spent({event: participations}, delta, _name(accountant))
        found = {
            "epsilon": reported(bound.epsilon, up=True),
            "lower_bound": reported(bound.lower_bound, up=False),
            "accountant": bound.accountant,
        }
    about = {
        "noise_multiplier": noise_multiplier,
        "participations": participations,
        "sampling": sampling.value,
        "records": records,
    }
    _print(found | _standing(accountant, event, delta) | about, as_json)


def calibrate(
    sampling: SamplingOption,
    participations: Participations,
    epsilon: Annotated[float, typer.Option(help="of all rounds together")],
    delta: Delta,
    records: Records = None,
    drawn: Drawn = None,
    rate: Rate = None,
    local_steps: LocalSteps = 1,
    contraction: Contraction = 0.0,
    max_batch: MaxBatch = None,
    accountant: ByOption = By.tight,
    as_json: AsJson = False,
) -> None:
    """Print the least noise multiplier, rounded up, that keeps a client within a budget."""
    from fedspd.privacy import accounting

    make = partial(event_of, sampling, records, drawn, rate, local_steps, contraction, max_batch)
    if accountant is By.published:
        multiplier = _classic(epsilon / _growth(make(1.0), participations), delta)
        found = {"noise_multiplier": multiplier, "epsilon": epsilon, "accountant": "published"}
    else:
        name = _name(accountant)
        multiplier = accounting.calibrate(make, participations, epsilon, delta, accountant=name)
        bound = accounting.spent({make(multiplier): participations}, delta, name)
        found = {"noise_multiplier": multiplier, "epsilon": bound.epsilon, "accountant": bound.accountant}
    about = {"participations": participations, "sampling": sampling.value, "records": records}
    _print(found | _standing(accountant, make(multiplier), delta) | about, as_json)


def _name(accountant: By) -> "Accountant":
    return "rdp" if accountant is By.rdp else "pld"


def _classic(value: float, delta: float) -> float:
    """The paper's epsilon of a round from the noise multiplier, and the other way round."""
    from fedspd.privacy import paper
    from fedspd.privacy.accounting.history import require_delta

    require_delta(delta)
    if not 0 < value < math.inf:
        raise InputError(f"expected a positive finite epsilon, got {value:g}; correct it.")
    return paper.classic_multiplier(value, delta)


def _growth(event: "Event", participations: int) -> float:
    """The paper's epsilon of all rounds over that of one round (its Theorem 1)."""
    from fedspd.privacy import paper
    from fedspd.privacy.accounting import FixedSize, Gaussian

    if participations < 1:
        raise InputError(f"participations must be at least 1, got {participations}; the paper has no other case.")
    if isinstance(event, Gaussian):
        return paper.full_batch_total_epsilon(1.0, participations)
    if not isinstance(event, FixedSize) or event.drawn == event.records:
        raise InputError(
            "expected --sampling without-replacement with --drawn below --records, or whole-shard, for the published "
            "formula, got neither; "
            "the paper has no other sampling here."
        )
    return float(paper.total_epsilon(1.0, event.drawn / event.records, participations))


def _standing(accountant: By, event: "Event", delta: float) -> dict[str, Any]:
    guarantee = "as published" if accountant is By.published else "proved"
    return {"relation": event.relation, "delta": delta, "guarantee": guarantee}


def _print(found: Mapping[str, Any], as_json: bool) -> None:
    from fedspd.report.numbers import rounded
    from fedspd.report.of_runs.terminal import warnings
    from fedspd.results import to_json

    weak = warnings(found["epsilon"], found["delta"], found["records"])
    found = {name: value for name, value in found.items() if name != "records"}
    if as_json:
        print(to_json({**found, "warnings": weak} if weak else found))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    for name, value in found.items():
        if value is not None:
            bound = name in ("epsilon", "lower_bound")
            table.add_row(name.replace("_", " "), rounded(value, up=name == "epsilon") if bound else str(value))
    out.print(table)
    for warning in weak:
        out.print(warning, highlight=False)
