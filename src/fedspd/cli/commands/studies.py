"""The commands that run many runs: reproduce, compare."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedspd.cli import tables
from fedspd.cli.commands.resume import cut_off_anytime
from fedspd.cli.console import PlainConsole
from fedspd.cli.progress import progress

if TYPE_CHECKING:
    from fedspd.studies.compare import Ground
    from fedspd.studies.folder import StudyReport

out, err = PlainConsole(), PlainConsole(stderr=True)

REPRODUCE_EXAMPLES = """
Examples:

- `fedspd reproduce fig2`

- `fedspd reproduce all --seeds 10 --out reproduction`
"""
COMPARE_EXAMPLES = """
Examples:

- `fedspd compare`

- `fedspd compare --epsilon 1 --epsilon 8 --deal iid --participation 20% --seeds 3 --out compared`

- `fedspd compare --data adult --data diamonds --epsilon 3 --delta 1e-6`

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
    context: typer.Context,
    figure: Annotated[str, typer.Argument(metavar="fig2|fig3|fig4|fig5|fig6|all", help="what to rerun")],
    seeds: Seeds = 10,
    folder: Annotated[
        Path, typer.Option("--out", help="study folder, replaced where it holds an earlier study")
    ] = Path("runs/reproduction"),
    as_json: AsJson = False,
) -> None:
    """Rerun the paper's figures, as published and with the proved method, and test its claims."""
    from fedspd.studies import reproduce as paper
    from fedspd.studies.folder import check_study_folder

    chosen = paper.load_studies(figure)
    check_study_folder(folder)
    with cut_off_anytime(context, folder, False):
        with progress("runs", paper.count_runs(chosen, seeds), err, quiet=as_json) as advance:
            reproduced = paper.reproduce(chosen, seeds, advance)
        study = paper.reproduction_study(reproduced, paper.verdicts(reproduced), seeds)
        _save(study, folder)
    _tell(study, folder, as_json)


def compare(
    context: typer.Context,
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
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="TABLE|NAME",
            help="a data set's name, repeatable, default adult, credit, letters; or your table, see `fedspd run`",
        ),
    ] = None,
    schema: tables.SchemaFile = None,
    target: tables.TargetColumn = None,
    client: tables.ClientColumn = None,
    person: tables.PersonColumn = None,
    clients: tables.Clients = None,
    test: tables.TestTable = None,
    test_share: tables.TestShare = None,
    uploads: Annotated[
        int | None, typer.Option(help="of every client; default 5, and 50 on a table of your own", min=1)
    ] = None,
    delta: tables.Delta = None,
    folder: Annotated[
        Path, typer.Option("--out", help="study folder, replaced where it holds an earlier study")
    ] = Path("runs/comparison"),
    as_json: AsJson = False,
) -> None:
    """Hold all methods against each other at equal end-to-end privacy: the leaderboard."""
    from fedspd.algorithms import METHODS
    from fedspd.studies import compare as leaderboard
    from fedspd.studies.folder import check_study_folder
    from fedspd.studies.jobs import on_own_records

    check_study_folder(folder)
    grounds = [
        _ground(
            tables.Asked(name, schema, target, client, clients, test, test_share, delta=delta, person=person), uploads
        )
        for name in dict.fromkeys(data or leaderboard.DATA)
    ]
    asked = leaderboard.cells(
        budgets or leaderboard.BUDGETS, deals, shares or leaderboard.SHARES, methods or tuple(METHODS), grounds
    )
    cells, refused = leaderboard.only_possible(asked)
    centrals = [leaderboard.central(ground) for ground in dict.fromkeys(cell.ground for cell in cells)]
    private = bool(on_own_records(leaderboard.configuration(cell) for cell in cells))
    with cut_off_anytime(context, folder, private):
        with progress("runs", leaderboard.count_runs(cells, seeds), err, quiet=as_json) as advance:
            entries, later = leaderboard.compare(cells, seeds, advance)
        study = leaderboard.comparison_study(entries, centrals, seeds, [*refused, *later])
        _save(study, folder)
    _tell(study, folder, as_json)


def _ground(asked: tables.Asked, uploads: int | None) -> "Ground":
    """The records that options name."""
    from fedspd import config
    from fedspd.assemble.settled import settle
    from fedspd.data import SOURCES
    from fedspd.data.source import OWN_SOURCES
    from fedspd.studies.compare import ADULT, DELTA, UPLOADS, Ground

    assert asked.data is not None, "there is always some data"
    chosen = tables.settings_of(asked) | {"run.seed": 0}
    loaded = config.load("proved", chosen, tables.usual_of(asked))
    cells = SOURCES[loaded.data.name].read(loaded.data.source)
    skewed = ("dirichlet",) if cells.schema.target.classes else ()
    deals = ("own",) if loaded.partition.kind == "own" else ("iid", *skewed)
    own = loaded.data.name in OWN_SOURCES
    return Ground(
        Path(asked.data).name,
        tuple((key, value) for key, value in chosen.items() if key.startswith("data.") or key == "partition.clients"),
        settle(loaded, cells).partition.clients,
        ADULT.deals if loaded.data.name == "adult" else deals,
        # nobody has seen whether few uploads do on records of somebody's own
        uploads or (10 * UPLOADS if own else UPLOADS),
        asked.delta or DELTA,
    )


def _save(study: "StudyReport", folder: Path) -> None:
    from fedspd.results import WORK_FILE, RunFolder
    from fedspd.studies.folder import save_study

    with RunFolder(folder, replaces=WORK_FILE).staged(private=study.private) as staging:
        save_study(study, staging)


def _tell(study: "StudyReport", folder: Path, as_json: bool) -> None:
    from fedspd.report import grid_terminal
    from fedspd.results import to_json

    if as_json:
        tables = {
            name: [dict(zip(grid.columns, row, strict=True)) for row in grid.rows] for name, grid in study.grids.items()
        }
        print(to_json({"folder": str(folder), "privacy": study.page.privacy, **tables}))
        return
    for grid in study.told:
        out.print(grid_terminal(grid))
        out.print()
    for statement in study.page.privacy:
        out.print(f"\n{statement}", highlight=False, markup=False)
    out.print(f"\nWritten to {folder}; open {folder / 'report.html'}", highlight=False, markup=False)
