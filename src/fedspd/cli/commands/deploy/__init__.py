"""Runs between real sites: what an operator does, and what is done at a site."""

import typer

from fedspd.cli.commands.deploy import operator, site


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the program's."""
    deploy = typer.Typer(no_args_is_help=True, help="Run between real sites, on Flower.")
    for command, examples in (
        (
            operator.init,
            ("init adult --sites 5", "init wards --site north --site south --host fl.example.org --schema schema.toml"),
        ),
        (operator.add, ("add wards/federation.toml north north.pub",)),
        (operator.renew, ("renew wards/federation.toml --host fl.example.org", "renew wards/federation.toml --switch")),
        (
            operator.server,
            ("server wards/federation.toml", "server wards/federation.toml --set federation.folder=second"),
        ),
        (operator.stop, ("stop wards/federation.toml",)),
        (operator.members, ("members wards/federation.toml", "members members.toml")),
        (operator.report, ("report wards/federation.toml", "report wards/federation.toml --json")),
        (site.join, ("join site.toml",)),
        (site.check, ("check site.toml", "check site.toml --json")),
        (site.site, ("site site.toml",)),
        (site.approve, ("approve site.toml", "approve site.toml --yes wards-3fa2c1")),
    ):
        listed = "\n\n".join(f"- `fedspd deploy {example}`" for example in examples)
        deploy.command(epilog=f"Examples:\n\n{listed}\n")(command)
    app.add_typer(deploy, name="deploy")
