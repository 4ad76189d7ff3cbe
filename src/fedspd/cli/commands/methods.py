"""The command that lists the methods: the columns of the paper's Table 1, and what each may claim."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedspd.algorithms import METHODS, Method, label
from fedspd.cli.console import PlainConsole
from fedspd.privacy import POISSON

if TYPE_CHECKING:
    from fedspd.report import Grid

WIDEST = 120
NOTHING = "–"
EXAMPLES = """
Examples:

- `fedspd methods`

- `fedspd methods dp-admm`

- `fedspd methods --json`
"""
ABOUT = (
    "In brackets: what Table 1 of arXiv 2204.12284 prints, where it is something else. T rounds of Q local steps. "
    "A reconstruction is known by its abstract, or from others, only. `fedspd methods NAME` says all about one."
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(methods)


def methods(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="say all about this one")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON and nothing else")] = False,
) -> None:
    """List all methods: what they compute, what they release, what they may claim, and where they come from."""
    from fedspd.report import grid_terminal
    from fedspd.results import to_json

    if name is not None:
        METHODS.find(name)
    if as_json:
        listed = [_plain(each) for each in METHODS]
        print(to_json({"methods": listed} if name is None else _plain(name)))
        return
    out = _console()
    if name is not None:
        out.print(_everything(name))
        return
    for grid in (claims_grid(), updates_grid()):
        out.print(grid_terminal(grid))
        out.print()
    out.print(Text(ABOUT))


def claims_grid() -> "Grid":
    """What every method may claim, and how well it is known."""
    from fedspd.report import Grid

    columns = ("name", "guarantee", "noise", "un-noised state", "neighbors", "confidence in the text of the method")
    rows = tuple(
        (label(name, name), one.guarantee, one.noise, _word(one.card.private_state), _relations(one),
         one.card.confidence)
        for name, one in METHODS.items()
    )  # fmt: skip
    return Grid("What is claimed", columns, rows)


def updates_grid() -> "Grid":
    """The columns of Table 1: what runs here and, where it differs, what is printed."""
    from fedspd.report import Grid

    columns = ("name", "local updates", "objective", "some clients a round", "convergence rate")
    return Grid("What is computed", columns, tuple((label(name, name), *_updates(METHODS[name])) for name in METHODS))


def _updates(method: Method) -> tuple[str, ...]:
    ours = (method.local_updates, method.objective, not method.needs.everybody, method.card.rate)
    printed = ours if method.card.printed is None else method.card.printed
    return tuple(_beside(own, other) for own, other in zip(ours, printed, strict=True))


def _beside(own: str | bool, printed: str | bool) -> str:
    return _word(own) if own == printed else f"{_word(own)} [{_word(printed)}]"


def _word(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return "; ".join(f"{_spaced(key)}: {_word(part)}" for key, part in value.items())
    return NOTHING if value is None or value == "" else str(value)


def _spaced(key: str) -> str:
    return key.replace("_", " ")


def _everything(name: str) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for key, value in _plain(name).items():
        table.add_row(_spaced(key), Text(_word(value)))
    return table


def _plain(name: str) -> dict[str, Any]:
    method = METHODS[name]
    card = vars(method.card)
    return {
        "name": name,
        "title": method.card.title,
        "guarantee": method.guarantee,
        "noise": method.noise,
        "neighbors": _relations(method),
        "local_updates": method.local_updates,
        "objective": method.objective,
        "partial": not method.needs.everybody,
        "deploys": method.deploys,
        **{key: value for key, value in card.items() if key != "title"},
        "printed": None if method.card.printed is None else method.card.printed._asdict(),
        "settings": {key.name: key.metadata["doc"] for key in fields(method.settings)},
    }


def _relations(method: Method) -> str:
    """Neighbors that a claim speaks of: those of Poisson batches too, where a method has them."""
    if method.guarantee == "none":
        return NOTHING
    declared = {key.name: key for key in fields(method.settings)}
    poisson = "sampling" in declared and POISSON in declared["sampling"].metadata["choices"]
    return "replace-one; zero-out in Poisson batches" if poisson else "replace-one"


def _console() -> Console:
    """As wide as the terminal but no wider than tables read well; as wide as that where there is none."""
    out = PlainConsole(soft_wrap=False)
    out.width = min(out.width, WIDEST) if out.is_terminal else WIDEST
    return out
