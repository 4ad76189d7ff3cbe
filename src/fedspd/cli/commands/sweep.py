"""The command that varies settings: sweep."""

from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedspd import config as configuration
from fedspd.cli import tables
from fedspd.cli.commands.resume import cut_off_anytime
from fedspd.cli.console import PlainConsole
from fedspd.cli.progress import progress

if TYPE_CHECKING:
    from fedspd.studies.folder import StudyReport

out, err = PlainConsole(), PlainConsole(stderr=True)

EXAMPLES = """
A call that was stopped, even killed, is continued by the same call. With more values of the same settings or more
seeds, only the new runs are made. Fewer of them, other settings or another version of fedspd need a new folder.

Examples:

- `fedspd sweep --grid privacy.epsilon=0.1,1,3 --seeds 5`

- `fedspd sweep my.toml --grid privacy.epsilon=0.1,1,3 --grid algorithm.penalty=log:0.01:10:7 --seeds 20`

- `fedspd sweep --data records.csv --schema schema.toml --test-share 0.2 --grid privacy.epsilon=0.1,1,3`

- `fedspd sweep --grid algorithm.step_scale=log:0.1:10:9 --set data.split=validation --metric test_loss --out steps`
"""


class Engine(StrEnum):
    """What runs are computed with."""

    auto = "auto"
    numpy = "numpy"
    jax = "jax"


Source = Annotated[str, typer.Argument(metavar="[CONFIG.toml|PRESET]", help="a TOML file or a preset's name")]
Grids = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        metavar="SECTION.KEY=VALUES",
        help="a setting to vary: value,value or log:low:high:count or lin:low:high:count; repeatable",
    ),
]
Seeds = Annotated[int, typer.Option(help="runs of every point", min=1)]
FirstSeed = Annotated[
    int | None, typer.Option(help="the first of consecutive seeds; default: that of the configuration", min=0)
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="a setting for all runs; repeatable")
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="the column that is drawn and by which the best is chosen; default: test_accuracy, or test_explained of a "
        "number or a count"
    ),
]
Folder = Annotated[Path, typer.Option("--out", help="study folder: new, or one that holds a part of this sweep")]
EngineOption = Annotated[Engine, typer.Option(help="what computes the runs")]
AsJson = Annotated[bool, typer.Option("--json", help="print the points as JSON and nothing else")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(sweep)


def sweep(
    context: typer.Context,
    source: Source = "proved",
    grids: Grids = None,
    seeds: Seeds = 10,
    first_seed: FirstSeed = None,
    settings: Settings = None,
    metric: Metric = None,
    data: tables.Data = None,
    schema: tables.SchemaFile = None,
    target: tables.TargetColumn = None,
    client: tables.ClientColumn = None,
    person: tables.PersonColumn = None,
    clients: tables.Clients = None,
    test: tables.TestTable = None,
    test_share: tables.TestShare = None,
    folder: Folder = Path("runs/sweep"),
    engine: EngineOption = Engine.auto,
    as_json: AsJson = False,
) -> None:
    """Vary settings: every combination of their values with every seed, as one tidy table and a figure."""
    from fedspd.studies.jobs import on_own_records
    from fedspd.studies.sweep import check_metric, plan_sweep, run_sweep, save_sweep, sweep_study

    check_metric(metric or "test_accuracy")
    asked = tables.Asked(data, schema, target, client, clients, test, test_share, person=person)
    overrides = configuration.parse_overrides(settings or [], tables.settings_of(asked))
    planned = plan_sweep(source, grids or [], seeds, first_seed, overrides, tables.usual_of(asked))
    metric = metric or _usual_metric(planned.configs[0])
    private = bool(on_own_records(planned.configs))
    with ExitStack() as stack:
        bar = stack.enter_context(progress("runs", len(planned.configs), err, quiet=as_json))
        begin = partial(stack.enter_context, cut_off_anytime(context, folder, private))
        rows, kept = run_sweep(planned, folder, engine.value, bar, begin)
        study = sweep_study(planned, rows, metric)
        save_sweep(study, planned, rows, metric, folder)
    (_tell_json if as_json else _tell)(study, folder, {"runs": len(rows), "kept": kept})


def _usual_metric(config: configuration.Config) -> str:
    from fedspd.data import SOURCES

    target = SOURCES[config.data.name].schema(config.data.source).target
    return "test_accuracy" if target.classes else "test_explained"


def _tell(study: "StudyReport", folder: Path, counts: dict[str, int]) -> None:
    from fedspd.report import grid_terminal

    for grid in study.told:
        out.print(grid_terminal(grid))
    for statement in study.page.privacy:
        out.print(f"\n{statement}", highlight=False, markup=False)
    before = f", {counts['kept']} of them from before" if counts["kept"] else ""
    out.print(
        f"\n{counts['runs']} runs{before}. Written to {folder}; open {folder / 'report.html'}",
        highlight=False, markup=False,
    )  # fmt: skip


def _tell_json(study: "StudyReport", folder: Path, counts: dict[str, int]) -> None:
    from fedspd.results import to_json
    from fedspd.studies.sweep.tidy import CSV_FILE, PARQUET_FILE

    (grid,) = study.grids.values()
    told = {
        "folder": str(folder), "privacy": study.page.privacy, **counts, "csv": str(folder / CSV_FILE),
        "parquet": str(folder / PARQUET_FILE), "note": grid.note,
        "points": [dict(zip(grid.columns, row, strict=True)) for row in grid.rows],
    }  # fmt: skip
    print(to_json(told))
