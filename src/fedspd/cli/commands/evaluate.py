"""The commands `evaluate`, `select` and `infer`: models measured on private records, charged like any other release."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedspd.cli.commands.predict import Average, Run
from fedspd.cli.console import PlainConsole
from fedspd.cli.events import AsJson
from fedspd.cli.heads import HeadCommand, HeadFile, second_place, send_head

if TYPE_CHECKING:
    from fedspd.results.evaluation import Evaluation
    from fedspd.results.selection import Selection

out = PlainConsole()
EXAMPLES = """
Examples:

- `fedspd run --set evaluation.held_out=0.2 --out runs/first`, then `fedspd evaluate runs/first`

- `fedspd evaluate runs/first --subgroup sex --least-size 200`

- `fedspd evaluate runs/first --ledger mine.sqlite --average --json`

- `fedspd evaluate runs/first --ledger mine.sqlite --again --head-file /mnt/other/heads`
"""
SELECT_EXAMPLES = """
Examples:

- `fedspd select runs/l1 runs/l2 runs/none --ledger mine.sqlite`

- `fedspd select runs/a runs/b --ledger mine.sqlite --json`
"""
INFER_EXAMPLES = """
Examples:

- `fedspd infer runs/first`

- `fedspd infer runs/first --columns age,sex,hours-per-week`

- `fedspd infer runs/first --ledger mine.sqlite --again --json`
"""
PICTURE, FOREST = "evaluation.png", "inference.png"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(evaluate)
    app.command(epilog=SELECT_EXAMPLES)(select)
    app.command(epilog=INFER_EXAMPLES)(infer)


def evaluate(
    run: Run,
    ledger: Annotated[
        Path | None, typer.Option(help="that the run was charged to; default: the one in its folder")
    ] = None,
    bins: Annotated[int, typer.Option(help="into which scores or residuals are put; an even number")] = 10,
    subgroup: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="measure by the levels of this declared column too")
    ] = None,
    least_size: Annotated[
        int, typer.Option(help="show a subgroup from so many records on; another least size is no other charge")
    ] = 100,
    average: Average = False,
    again: Annotated[
        bool, typer.Option("--again", help="measure anew, for another charge, also where this was measured")
    ] = False,
    head_file: HeadFile = None,
    head_command: HeadCommand = None,
    as_json: AsJson = False,
) -> None:
    """Measure a trained model on records that its run held out.

    Counts leave with noise, charged to the ledger; they are kept in the run's folder, where reading them is free.
    """
    from fedspd.assemble.finished.evaluation import Asked, evaluate_folder
    from fedspd.report import grid_terminal
    from fedspd.report.of_runs.evaluation import ABOUT, evaluation_grids, evaluation_text
    from fedspd.results import to_json

    place = second_place(head_file, head_command)
    found = evaluate_folder(run, Asked(average, bins, subgroup, least_size), ledger, again)
    warn_of_statements(run)
    send_head(place, ledger or run / "ledger.sqlite")
    draw_measurement(run, found)
    if as_json:
        print(to_json(asdict(found)))
        return
    for grid in evaluation_grids(found):
        out.print(grid_terminal(grid))
    out.print(f"\n{evaluation_text(found)} {ABOUT}", highlight=False, markup=False)
    out.print(f"\nWritten to {run / 'evaluation.json'} and {run / PICTURE}", highlight=False, markup=False)


def warn_of_statements(*runs: Path, choice: "Selection | None" = None) -> None:
    """Say which statements stayed as they were signed and leave out what was charged."""
    from fedspd.cli.commands.statement import warn
    from fedspd.results import STATEMENT, read_statement

    for run in runs:
        if (run / STATEMENT).is_file():
            warn(run, read_statement(run), choice=choice)


def draw_measurement(run: Path, found: "Evaluation") -> None:
    """Put the picture of a measurement into the run's folder."""
    from fedspd.report import draw, to_png
    from fedspd.report.of_runs.evaluation import evaluation_charts
    from fedspd.results import write_whole

    write_whole(run / PICTURE, to_png(draw(evaluation_charts(found), f"Measurement {found.number} on private records")))


def select(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="folders of runs on one ledger")],
    ledger: Annotated[
        Path | None, typer.Option(help="that all of them were charged to; default: the one in the first folder")
    ] = None,
    average: Average = False,
    again: Annotated[bool, typer.Option("--again", help="choose anew, for another charge")] = False,
    head_file: HeadFile = None,
    head_command: HeadCommand = None,
    as_json: AsJson = False,
) -> None:
    """Choose the best of several trained models by records that all of them held out.

    All scores leave with noise in one release, charged to the ledger: tuning on private records, paid for.
    """
    from fedspd.assemble.finished.selection import select as choose
    from fedspd.report import Grid, grid_terminal
    from fedspd.results import to_json

    place = second_place(head_file, head_command)
    chosen = choose(runs, ledger, average, again)
    warn_of_statements(*runs, choice=chosen)
    send_head(place, ledger or runs[0] / "ledger.sqlite")
    if as_json:
        print(to_json(asdict(chosen) | {"best": chosen.runs[chosen.chosen]}))
        return
    rows = tuple((one.name, round(one.value or 0.0, 4), round(one.low, 4), round(one.high, 4)) for one in chosen.scores)
    out.print(grid_terminal(Grid("Scores on what all runs held out", ("run", "score", "from", "to"), rows)))
    out.print(
        f"\nChosen: {chosen.runs[chosen.chosen]}. All scores were released once, with noise of standard deviation "
        f"{chosen.noise / chosen.records:.4f} on each; epsilon {chosen.epsilon:.3g} by itself at delta "
        f"{chosen.delta:g}, charged to the ledger. Kept in selection.json of a run.",
        highlight=False, markup=False,
    )  # fmt: skip


def infer(
    run: Run,
    ledger: Annotated[
        Path | None, typer.Option(help="that the run was charged to; default: the one in its folder")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="another step from where the last one ended, for another charge")
    ] = False,
    columns: Annotated[
        str, typer.Option(metavar="A,B,...", help="of a regression of its own on these alone; default: the model's")
    ] = "",
    head_file: HeadFile = None,
    head_command: HeadCommand = None,
    as_json: AsJson = False,
) -> None:
    """Coefficients in original units with intervals, from noised Newton steps on held-out records, for one charge.

    What noise would surely drown is refused before it is charged. Where no interval would be honest, it says why.
    """
    from fedspd.assemble.finished.inference import infer_folder
    from fedspd.report import grid_terminal, to_png
    from fedspd.report.of_runs.evaluation import forest, inference_grid, inference_text
    from fedspd.results import to_json, write_whole

    chosen = tuple(name.strip() for name in columns.split(",")) if columns else ()
    place = second_place(head_file, head_command)
    found = infer_folder(run, ledger, again, chosen)
    warn_of_statements(run)
    send_head(place, ledger or run / "ledger.sqlite")
    if found.coefficients:
        write_whole(run / FOREST, to_png(forest(found)))
    if as_json:
        print(to_json(asdict(found)))
        return
    if found.coefficients:
        out.print(grid_terminal(inference_grid(found)))
    out.print(f"\n{inference_text(found)}", highlight=False, markup=False)
