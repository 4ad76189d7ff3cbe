"""The command that turns runs, reproductions and comparisons into one page of HTML."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from fedspd.cli.console import PlainConsole

out, err = PlainConsole(), PlainConsole(stderr=True)

EXAMPLES = """
Examples:

- `fedspd report runs/first --open`

- `fedspd report runs/first runs/second --out compared.html`
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(report)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="run folders or study folders")],
    target: Annotated[
        Path | None,
        typer.Option("--out", help="file to write; default: report.html, in the folder if there is only one"),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="open it in the browser")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print where it is as JSON and nothing else")] = False,
) -> None:
    """Make one HTML page of runs: privacy statement, curves, tables, configuration, environment."""
    from fedspd.report import folders_page, save_report
    from fedspd.results import to_json

    file = target or (runs[0] if len(runs) == 1 else Path()) / "report.html"
    save_report(folders_page(runs), file)
    if as_json:
        print(to_json({"report": str(file)}))
    else:
        out.print(f"Written to {file}", highlight=False, markup=False)
    if show and not webbrowser.open(file.resolve().as_uri()):
        err.print("No browser could be opened; open the file yourself.", highlight=False)
