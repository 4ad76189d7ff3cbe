"""The commands `deploy init`, `deploy keys` and `deploy report`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedspd.cli.events import AsJson
from fedspd.errors import InputError

out = Console(soft_wrap=True)
INIT_EXAMPLES = """
Examples:

- `fedspd deploy init adult --sites 5`

- `fedspd deploy init hospitals --sites 3 --schema schema.toml --epsilon 0.5 --aggregation secure`
"""
KEYS_EXAMPLES = """
Examples:

- `fedspd deploy keys keys --host fl.example.org --site north --site south`
"""
REPORT_EXAMPLES = """
Examples:

- `fedspd deploy report adult`

- `fedspd deploy report adult --json`
"""


class Aggregation(StrEnum):
    """How the server adds up uploads."""

    PLAIN = "plain"
    SECURE = "secure"


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the program's."""
    deploy = typer.Typer(no_args_is_help=True, help="Run between real sites, on Flower.")
    deploy.command(epilog=INIT_EXAMPLES)(init)
    deploy.command(epilog=KEYS_EXAMPLES)(keys)
    deploy.command(epilog=REPORT_EXAMPLES)(report)
    app.add_typer(deploy, name="deploy")


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new folder")],
    sites: Annotated[int, typer.Option(help="how many sites take part")] = 5,
    schema: Annotated[
        Path | None, typer.Option(help="what the sites' columns mean; default: Adult, dealt out to the sites")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="budget of every site, over all runs")] = 1.0,
    delta: Annotated[float, typer.Option(help="failure probability")] = 1e-5,
    aggregation: Annotated[
        Aggregation, typer.Option(help="secure: the server sees sums of uploads only")
    ] = Aggregation.PLAIN,
) -> None:
    """Write a Flower app, its run settings, and a folder for each site to take home."""
    _require_flower()
    from fedspd.deploy.setup.init import Plan, write_app

    homes = write_app(Plan(folder, sites, schema, epsilon, delta, aggregation.value))
    out.print(f"Written to {folder}: pyproject.toml has the run's settings, schema.toml the columns.", highlight=False)
    for home in homes:
        data = "with its part of Adult" if schema is None else f"put its records into {home / 'records.csv'}"
        out.print(f"  {home.name}: {home / 'site.toml'}, {data}", highlight=False, markup=False)
    out.print("Next: docs/deploy.md, or `make demo-deploy` to see it run on this machine.", highlight=False)


def keys(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="where to write them")],
    host: Annotated[
        list[str] | None, typer.Option(help="name or address of the SuperLink's machine; repeatable")
    ] = None,
    site: Annotated[list[str] | None, typer.Option(help="a site that gets a key of its own; repeatable")] = None,
) -> None:
    """Write TLS certificates for the SuperLink and a key for each SuperNode, without an authority of your own."""
    _require_flower()
    from fedspd.deploy.setup.keys import LOOPBACK, write_certificates, write_node_key

    files = write_certificates(folder, tuple(dict.fromkeys([*(host or []), *LOOPBACK])))
    out.print(f"{files.authority}: for everyone", highlight=False)
    out.print(f"{files.server}, {files.server_key}: for the SuperLink alone", highlight=False)
    for name in site or []:
        key = write_node_key(folder, name)
        out.print(f"{key.private}: for {name} alone; register {key.public}", highlight=False)


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="what `deploy init` wrote")],
    as_json: AsJson = False,
) -> None:
    """Print what a finished run claims, what it reached, and what each site was charged."""
    _require_flower()
    import json

    from fedspd.deploy.server.results import table

    path = folder / "server" / "statement.json"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"expected the statement of a finished run at {path}, got '{error.strerror}'; finish the run first."
        ) from None
    print(text.rstrip() if as_json else table(json.loads(text)))


def _require_flower() -> None:
    from importlib.util import find_spec

    if find_spec("flwr") is None:
        raise InputError('deployment needs Flower, got none; pip install "fedspd[flower]".')
