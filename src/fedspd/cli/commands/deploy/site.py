"""The commands at a site: `deploy join`, `check`, `site`, `approve`."""

from pathlib import Path
from typing import Annotated

import typer

from fedspd.cli.commands.deploy.told import require_flower, say
from fedspd.cli.events import AsJson
from fedspd.escaping import escaped

SiteFile = Annotated[Path, typer.Argument(metavar="SITE.TOML", help="the site's file")]


def join(file: SiteFile) -> None:
    """Once, at a site: make its ledger and store, and its key where it has none."""
    require_flower()
    from fedspd.deploy.setup.join import join as join_federation

    join_federation(file, say)


def check(file: SiteFile, as_json: AsJson = False) -> None:
    """Look at everything that must be right at a site, before any run; nothing is spent."""
    require_flower()
    from fedspd.deploy.setup.check import check_site
    from fedspd.results import to_json

    found = []
    for one in check_site(file):
        found.append(one)
        if not as_json:
            say(f"{'ok ' if one.good else 'BAD'}  {one.what:<12} {one.told}")
    if as_json:
        print(to_json([one._asdict() for one in found]))
    if not all(one.good for one in found):
        raise typer.Exit(2)


def site(file: SiteFile) -> None:
    """Be a site: connect to the server and answer it, within the budget and policy of the site's file."""
    require_flower()
    import logging

    from fedspd.deploy.site.serve import serve_site

    logging.raiseExceptions = False  # a log that cannot be written hides nothing: its lines are printed here too
    serve_site(file, say)


def approve(
    file: SiteFile,
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="the run to confirm; default: all that wait")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="confirm without asking")] = False,
) -> None:
    """Read the terms of runs that wait for a person, and confirm them or not."""
    require_flower()
    from fedspd.deploy.site.approval import answer_question, waiting

    for asked in waiting(file, run):
        say(asked.terms)
        confirmed = yes or typer.confirm(f"Take part in {escaped(asked.run)}?")
        answer_question(file, asked, confirmed)
        told = "confirmed; the site answers when the server asks again" if confirmed else "not confirmed"
        say(f"{asked.run}: {told}.")
