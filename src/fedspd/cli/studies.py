"""The commands that run many runs: reproduce, compare."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedspd.cli import tables
from fedspd.cli.progress import progress

if TYPE_CHECKING:
    from fedspd.results import RunFolder
    from fedspd.studies.compare import Ground
    from fedspd.studies.folder import StudyReport

out, err = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

REPRODUCE_EXAMPLES = """
Examples:

- `fedspd reproduce fig2`

- `fedspd reproduce all --seeds 10 --out reproduction`
"""
COMPARE_EXAMPLES = """
Examples:

- `fedspd compare`

- `fedspd compare --epsilon 1 --epsilon 8 --deal iid --participation 20% --seeds 3 --out compared`

- `fedspd compare --data records.csv --schema schema.toml --client hospital --test-share 0.2 --epsilon 1`

- `fedspd compare --epsilon 1 --deal iid --participation full --method fedspd --method dp-admm --method ddp-admm-dvp`
"""

Seeds = Annotated[int, typer.Option(help="runs of every curve", min=1)]
AsJson = Annotated[bool, typer.Option("--json", help="print the tables as JSON and nothing else")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=REPRODUCE_EXAMPLES)(reproduce)
    app.command(epilog=COMPARE_EXAMPLES)(compare)


def reproduce(
    figure: Annotated[str, typer.Argument(metavar="fig2|fig3|fig4|fig5|fig6|all", help="what to rerun")],
    seeds: Seeds = 10,
    folder: Annotated[
        Path, typer.Option("--out", help="study folder, replaced where it holds an earlier study")
    ] = Path("runs/reproduction"),
    as_json: AsJson = False,
) -> None:
    """Rerun the paper's figures, as published and with the proved method, and test its claims."""
    from fedspd.studies import reproduce as paper
    from fedspd.studies.folder import study_folder

    chosen = paper.load_studies(figure)
    target = study_folder(folder)
    with progress("runs", paper.count_runs(chosen, seeds), err, quiet=as_json) as advance:
        reproduced = paper.reproduce(chosen, seeds, advance)
    _save_and_tell(paper.reproduction_study(reproduced, paper.verdicts(reproduced), seeds), target, as_json)


def compare(
    seeds: Seeds = 10,
    budgets: Annotated[
        list[float] | None, typer.Option("--epsilon", help="total budget; repeatable; default 0.1, 0.5, 1, 3, 8")
    ] = None,
    deals: Annotated[
        list[str] | None, typer.Option("--deal", help="iid, dirichlet or occupation; repeatable; default all")
    ] = None,
    shares: Annotated[
        list[str] | None, typer.Option("--participation", help="full or 20%; repeatable; default both")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option("--method", help="by name, see `fedspd methods`; repeatable; default all")
    ] = None,
    data: tables.Data = None,
    schema: tables.SchemaFile = None,
    target: tables.TargetColumn = None,
    client: tables.ClientColumn = None,
    clients: tables.Clients = None,
    test: tables.TestTable = None,
    test_share: tables.TestShare = None,
    folder: Annotated[
        Path, typer.Option("--out", help="study folder, replaced where it holds an earlier study")
    ] = Path("runs/comparison"),
    as_json: AsJson = False,
) -> None:
    """Hold all methods against each other at equal end-to-end privacy: the leaderboard."""
    from fedspd.algorithms import METHODS
    from fedspd.studies import compare as leaderboard
    from fedspd.studies.folder import study_folder

    ground = _ground(tables.Asked(data, schema, target, client, clients, test, test_share))
    cells = leaderboard.cells(
        budgets or leaderboard.BUDGETS, deals, shares or tuple(leaderboard.SHARES), methods or tuple(METHODS), ground
    )
    central = leaderboard.central(ground)
    made = study_folder(folder)
    with progress("runs", leaderboard.count_runs(cells, seeds), err, quiet=as_json) as advance:
        entries = leaderboard.compare(cells, seeds, advance, ground)
    _save_and_tell(leaderboard.comparison_study(entries, central, seeds), made, as_json)


def _ground(asked: tables.Asked) -> "Ground":
    """The records that options name; Adult without any."""
    from fedspd import config
    from fedspd.assemble.settled import settle
    from fedspd.data import SOURCES
    from fedspd.data.source import OWN_SOURCES
    from fedspd.studies.compare import ADULT, Ground

    chosen = tables.settings_of(asked) | ({} if asked.data is None else {"run.seed": 0})
    if not chosen:
        return ADULT
    loaded = config.load("proved", chosen, tables.usual_of(asked))
    cells = SOURCES[loaded.data.name].read(loaded.data.source)
    own = loaded.partition.kind == "own"
    skewed = ("dirichlet",) if cells.schema.target.classes else ()
    kept = {name: value for name, value in chosen.items() if name.startswith("data.") or name == "partition.clients"}
    if loaded.data.name in OWN_SOURCES:
        kept |= {"metrics.lagrangian": False, "metrics.objective_every": 0}
    if loaded.data.name == "adult":
        return Ground(tuple(kept.items()), loaded.partition.clients)
    deals = ("own",) if own else ("iid", *skewed)
    # nobody has tuned the few rounds of Adult's comparison to these records
    return Ground(tuple(kept.items()), settle(loaded, cells).partition.clients, deals, patience=10)


def _save_and_tell(study: "StudyReport", target: "RunFolder", as_json: bool) -> None:
    from fedspd.report import grid_terminal
    from fedspd.results import to_json
    from fedspd.studies.folder import save_study

    with target.staged() as staging:
        save_study(study, staging)
    if as_json:
        tables = {
            name: [dict(zip(grid.columns, row, strict=True)) for row in grid.rows] for name, grid in study.grids.items()
        }
        print(to_json({"folder": str(target.path), "privacy": study.page.privacy, **tables}))
        return
    for grid in study.told:
        out.print(grid_terminal(grid))
        out.print()
    for statement in study.page.privacy:
        out.print(f"\n{statement}", highlight=False, markup=False)
    out.print(f"\nWritten to {target.path}; open {target.path / 'report.html'}", highlight=False, markup=False)
