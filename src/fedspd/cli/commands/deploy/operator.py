"""The commands of an operator: `deploy init`, `add`, `renew`, `server`, `stop`, `members`, `report`."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedspd.cli.commands.deploy.told import out, require_flower, say
from fedspd.cli.commands.evaluate import draw_measurement
from fedspd.cli.commands.resume import work_of
from fedspd.cli.events import AsJson
from fedspd.errors import InputError
from fedspd.escaping import escaped_lines

if TYPE_CHECKING:
    from fedspd.deploy.server.settings import RunSettings
    from fedspd.results.evaluation import Evaluation

FederationFile = Annotated[Path, typer.Argument(metavar="FEDERATION.TOML", help="the federation's file")]
Changes = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="override a setting; repeatable")]
Host = Annotated[list[str] | None, typer.Option(help="name or address that sites call the server by; repeatable")]


class Aggregation(StrEnum):
    """How the server adds up uploads."""

    PLAIN = "plain"
    SECURE = "secure"


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new folder")],
    sites: Annotated[int | None, typer.Option(help="so many sites, named site-1, site-2, ...")] = None,
    site: Annotated[list[str] | None, typer.Option(help="name of a site, in place of --sites; repeatable")] = None,
    host: Host = None,
    port: Annotated[int, typer.Option(help="port that sites connect to", min=1, max=65535)] = 9092,
    schema: Annotated[
        Path | None, typer.Option(help="what the sites' columns mean; default: Adult, dealt out to the sites")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="budget of every site, over all runs")] = 1.0,
    delta: Annotated[float, typer.Option(help="failure probability")] = 1e-5,
    aggregation: Annotated[
        Aggregation, typer.Option(help="secure: the server sees sums of uploads only")
    ] = Aggregation.PLAIN,
    own_keys: Annotated[bool, typer.Option(help="sites make their own keys and send the public half")] = False,
) -> None:
    """Write a federation: the server's settings and certificates, and an archive for each site to take home."""
    require_flower()
    from fedspd.deploy.setup.init import MOST_SITES, SetupPlan, write_federation
    from fedspd.deploy.setup.keys import LOOPBACK

    if (sites is None) == (not site):
        raise InputError("expected either --sites or one --site for each site, got both or none; give one of the two.")
    if sites is not None and not 1 <= sites <= MOST_SITES:
        raise InputError(f"expected 1 to {MOST_SITES} sites, got {sites}; change --sites.")
    names = tuple(site or (f"site-{number}" for number in range(1, (sites or 0) + 1)))
    hosts = tuple(host or LOOPBACK)
    kits = write_federation(SetupPlan(folder, names, schema, epsilon, delta, aggregation.value, hosts, port, own_keys))
    say(f"Written to {folder}: federation.toml, schema.toml, members.toml, keys/ and an archive for each site:")
    for kit in kits:
        say(f"  {kit.relative_to(folder.resolve())}")
    say(f"Hand each site its archive, which says how to go on. Then: fedspd deploy server {folder / 'federation.toml'}")


def add(
    file: FederationFile,
    name: Annotated[str, typer.Argument(metavar="SITE", help="the site's name")],
    key: Annotated[Path, typer.Argument(metavar="KEY.PUB", help="its public key, as `deploy join` made it")],
) -> None:
    """Enter the public key that a site has made for itself."""
    require_flower()
    from fedspd.deploy.setup.change import add_key

    say(f"{name}: {add_key(file, name, key)}. Compare it with what the site reads out to you.")


def renew(
    file: FederationFile,
    host: Host = None,
    switch: Annotated[bool, typer.Option(help="use the new certificate from the next start on")] = False,
) -> None:
    """Make the next certificate, hand out what trusts both, and switch when all sites have it."""
    require_flower()
    from fedspd.deploy.setup import change

    if switch:
        if host:
            raise InputError("expected --host with the new certificate, got it with --switch; leave one of them out.")
        change.switch(file)
        say("Switched. Restart the server; hand sites the new keys/ca.pem at your leisure.")
        return
    both = change.renew(file, tuple(host or ()))
    say(f"Made. Hand {both} to every site, as its ca.pem; when all have it: fedspd deploy renew {file} --switch")


def server(
    context: typer.Context,
    file: FederationFile,
    settings: Changes = None,
    as_json: AsJson = False,
) -> None:
    """Wait for the sites, lead a run, resume one that was cut off; ends with a run folder as `fedspd run` does."""
    require_flower()
    from dataclasses import replace

    import tomli_w

    from fedspd import report as reports
    from fedspd.deploy.protocol.terms import settings_between_sites
    from fedspd.deploy.server.results import rounds_of, sites_of, table
    from fedspd.deploy.server.run import RESULTS
    from fedspd.deploy.server.serve import Interrupted, led
    from fedspd.results import RunFolder, to_json, write_statement
    from fedspd.results.evaluation import write_evaluations
    from fedspd.statement import claimed
    from fedspd.statement.beside import with_beside

    federation = _federation(file, settings)
    target = federation.folder / RESULTS
    try:
        led_to_its_end = led(federation, _say_to_stderr if as_json else say, work_of(context))
        with led_to_its_end as finished, RunFolder(target).staged() as folder:
            told = tomli_w.dumps(settings_between_sites(finished.run.config))
            record, model = replace(finished.run.record(), configuration=told), finished.run.model()
            reports.save_run(folder, record, model)
            if finished.evaluation is not None:
                write_evaluations(folder, (finished.evaluation,))
                draw_measurement(folder, finished.evaluation)
            write_statement(folder, with_beside(claimed(record, finished.run.planned, model), folder))
            sites = sites_of(finished.checkpoint)
            (folder / "sites.json").write_text(to_json(sites) + "\n")
            (folder / "rounds.csv").write_text(rounds_of(finished.checkpoint))
    except Interrupted as stopped:
        say(f"\n{stopped}")
        raise typer.Exit(130) from None
    if as_json:
        print(to_json({**finished.run.summary.to_dict(), "sites": sites, "folder": str(target)}))
        return
    out.print(reports.summary_table(finished.run.summary))
    say(f"\n{table(sites)}")
    out.print(f"\nPrivacy: {reports.privacy_statement(finished.run.summary)}")
    if finished.evaluation is not None:
        say(f"\n{_told(finished.evaluation)}")
    say(f"\nWritten to {target}")


def _told(found: "Evaluation") -> str:
    accuracy = found.of("accuracy")
    return (
        f"Measured on {found.records} held-out {found.unit}s at {found.clients} sites: accuracy {accuracy.low:.4f} to "
        f"{accuracy.high:.4f} (95 %); evaluation.json has the rest."
    )


def stop(file: FederationFile, settings: Changes = None) -> None:
    """End the server of a federation; the run can go on later."""
    require_flower()
    from fedspd.deploy.server.lock import stop as stop_server

    say(stop_server(_federation(file, settings).folder))


def members(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="federation.toml, or a site's members.toml")],
    write: Annotated[bool, typer.Option(help="write members.toml beside federation.toml anew, for all sites")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a federation's sites, the fingerprints of their keys and the threshold, to be compared by phone."""
    require_flower()
    from fedspd.deploy.protocol.identity import read_members
    from fedspd.deploy.server.settings import read_federation
    from fedspd.deploy.setup.change import write_members
    from fedspd.reading import read_toml
    from fedspd.results import to_json

    whole = "federation" in read_toml(file, "a federation's file", "name another one.")
    if write and not whole:
        raise InputError(f"--write makes members.toml from a federation.toml, got {file}; name that one.")
    if write:
        write_members(file)
    known = read_federation(file).members if whole else read_members(file)
    found = {name: key.fingerprint for name, key in known.items()}
    several = len(set(known.cohorts)) > 1
    if as_json:
        cohorts = {"cohorts": dict(zip(known, known.cohorts, strict=True))} if several else {}
        print(to_json({"threshold": known.threshold, "colluders": known.colluders, "sites": found} | cohorts))
        return
    for name, fingerprint in found.items():
        say(f"{name:<20} {fingerprint}" + (f"  cohort {known.cohort(name)}" if several else ""))
    if known.threshold:
        each = " of a cohort" if several else ""
        say(f"masked runs sum at least {known.threshold} sites{each}; {known.colluders} may collude")


def report(file: FederationFile, settings: Changes = None, as_json: AsJson = False) -> None:
    """Print what a finished run claims, what it reached, and what each site was charged."""
    require_flower()
    import json

    from fedspd import report as reports
    from fedspd.deploy.server.results import table
    from fedspd.deploy.server.run import RESULTS
    from fedspd.results import own_file, read_summary, to_json

    folder = _federation(file, settings).folder / RESULTS
    try:
        summary = read_summary(folder)
        sites = json.loads(own_file(folder, "sites.json").read_text(encoding="utf-8"))
        shown = reports.summary_table(summary), table(sites), reports.privacy_statement(summary)
    except (OSError, ValueError) as error:
        raise InputError(f"expected a finished run in {folder}, got '{error}'; finish the run first.") from None
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"expected a finished run in {folder}, got files of another kind ({type(error).__name__}: {error}); "
            "restore them."
        ) from None
    if as_json:
        print(to_json({**summary.to_dict(), "sites": sites}))
        return
    out.print(shown[0])
    say(f"\n{shown[1]}")
    out.print(f"\nPrivacy: {shown[2]}")


def _federation(file: Path, settings: list[str] | None) -> "RunSettings":
    from fedspd import config as configuration
    from fedspd.deploy.server.settings import read_federation

    return read_federation(file, configuration.parse_overrides(settings or [], {}))


def _say_to_stderr(line: str) -> None:
    print(escaped_lines(line), file=sys.stderr, flush=True)
