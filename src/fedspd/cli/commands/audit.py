"""The command that attacks the statement of a run: audit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.table import Table

from fedspd import config as configuration
from fedspd.cli.commands.resume import cut_off_anytime, resumed
from fedspd.cli.console import PlainConsole
from fedspd.cli.progress import progress
from fedspd.errors import InputError

if TYPE_CHECKING:
    from fedspd.audit.keeping import Kept
    from fedspd.results.audit import AuditRecord

out, err = PlainConsole(), PlainConsole(stderr=True)
FEWEST, MOST = 1000, 10**9

EXAMPLES = """
Examples:

- `fedspd audit`

- `fedspd audit runs/first`

- `fedspd audit my.toml --runs 100000 --json`

- `fedspd audit my.toml --runs 1000000 --out audits/long`

- `fedspd audit published --set privacy.epsilon=3`
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(audit)


def audit(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="[RUN|CONFIG.toml|PRESET]", help="a run folder, a TOML file or a preset's name")
    ] = "proved",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="override a setting; repeatable"),
    ] = None,
    runs: Annotated[int, typer.Option(help="runs of each game on each of two neighboring shards")] = 20_000,
    seed: Annotated[int, typer.Option(help="of the attack's draws")] = 0,
    folder: Annotated[
        Path | None, typer.Option("--out", help="new folder for the result; an audit that is cut off goes on from it")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON and nothing else")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="print nothing but errors")] = False,
) -> None:
    """Try to refute the privacy statement of a run: what attackers prove is leaked, beside what is claimed.

    No record is looked at: the attack plays the run's method, plan and noise on shards of its own. The result of a run
    folder is kept in it, as audit.json and audit.png. The exit code is 1 where the statement is refuted. An audit with
    --out that was stopped, even killed, is continued by `fedspd resume`.
    """
    from dataclasses import asdict

    from fedspd.report.of_runs.audited import save_audit
    from fedspd.results import to_json

    if runs > MOST:
        raise InputError(
            f"--runs must be at most {MOST}, got {runs}; lower it: every run is played and its score kept."
        )
    if runs < FEWEST:
        raise InputError(f"--runs must be at least {FEWEST}, got {runs}; with fewer nothing can be shown.")
    if seed < 0:
        raise InputError(f"--seed must be at least 0, got {seed}; leave it out.")
    run, config = _config(source, settings or [])
    asked = Asked(config, runs, seed, quiet or as_json)
    found = _attack(asked, None) if folder is None else _kept(context, asked, folder)
    if run is not None:
        save_audit(run, found)
    if as_json:
        print(to_json(asdict(found)))
    elif not quiet:
        _tell(found)
    if found.refuted:
        raise typer.Exit(1)


class Asked(NamedTuple):
    """All that the result depends on, and whether to tell how far it is."""

    config: configuration.Config
    runs: int
    seed: int
    quiet: bool


def _attack(asked: Asked, kept: "Kept | None") -> "AuditRecord":
    from fedspd.assemble.finished.audited import contests_of
    from fedspd.audit.verdict import audit as attack
    from fedspd.audit.verdict import length

    contests = contests_of(asked.config)
    with progress("attacks", length(contests, asked.runs), err, quiet=asked.quiet) as advance:
        return attack(contests, asked.runs, asked.seed, advance=advance, kept=kept)


def _kept(context: typer.Context, asked: Asked, folder: Path) -> "AuditRecord":
    """Attack with all scores in a folder, from where an earlier attempt was cut off."""
    from fedspd.audit.keeping import Kept
    from fedspd.report.of_runs.audited import save_audit
    from fedspd.results import Checkpoints, RunFolder, digest
    from fedspd.studies.jobs import run_key

    before = resumed(context)
    key = digest(run_key(asked.config).encode(), repr((asked.runs, asked.seed)).encode())
    if before is None:
        RunFolder(folder)
    elif before.key != key:
        raise InputError(
            f"expected the settings, the records and the version of fedspd that the audit in {folder} was begun with, "
            "got others, whose scores are not the same; restore them, or begin a new audit."
        )
    scores = Checkpoints(folder, "scores")
    with cut_off_anytime(context, folder, False, key):
        found = _attack(asked, Kept(scores))
        save_audit(folder, found)
        scores.remove()
        for draft in folder.glob(".*"):  # that a process which was killed has left half written
            draft.unlink()
    return found


def _config(source: str, settings: list[str]) -> tuple[Path | None, configuration.Config]:
    """A run's folder with its configuration, or a configuration alone."""
    from fedspd.results.run_folder import CONFIG

    path = Path(source)
    if not path.is_dir():
        return None, configuration.load(source, configuration.parse_overrides(settings, {}))
    if settings:
        raise InputError(
            "--set changes what a run claims, got it with a run folder; leave it out, or name a TOML file."
        )
    if not (path / CONFIG).is_file():
        raise InputError(f"a run folder holds {CONFIG}, got {path} without; name a folder that fedspd run wrote.")
    return path, configuration.load(str(path / CONFIG), {})


def _tell(found: "AuditRecord") -> None:
    from fedspd.report.of_runs.audited import audit_sentences

    table = Table("attacker", "claimed epsilon", "proved to leak", "runs", box=None, pad_edge=False)
    for one in found.attacks:
        table.add_row(one.attack, f"{one.claimed_epsilon:.4g}", f"{one.lower_bound:.4g}", f"2 x {one.runs}")
    out.print(table)
    for sentence in audit_sentences(found):
        out.print(f"\n{sentence}", highlight=False)
