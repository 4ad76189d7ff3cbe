"""Everything that must be right at a site before a run, each in a line: nothing is spent, and no record leaves."""

import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
from cryptography import x509

from fedspd import __version__
from fedspd.data import read_schema, read_table
from fedspd.data.describe.quality import quality
from fedspd.data.holding.held_out import held_out_sizes
from fedspd.deploy.flower import require_flower
from fedspd.deploy.protocol.identity import read_identity, read_members
from fedspd.deploy.site.computing.records import count_of
from fedspd.deploy.site.settings import Server, Site, read_site
from fedspd.deploy.site.spending import Session, Spending
from fedspd.deploy.site.store import Store
from fedspd.errors import InputError

SOON = 30  # days


class Checked(NamedTuple):
    """One line."""

    good: bool
    what: str
    told: str


def check_site(path: Path) -> Iterator[Checked]:
    """The lines, one by one; where the file itself cannot be read there is only that."""
    try:
        site = read_site(path)
    except InputError as error:
        yield Checked(False, "file", str(error))
        return
    yield Checked(True, "file", f"{path.name} of {site.name}")
    looks: tuple[tuple[str, Callable[[Site], str]], ...] = (
        ("versions", _versions), ("schema", _schema), ("table", _table), ("bounds", _bounds), ("key", _key),
        ("ledger", _ledger), ("certificate", _certificate), ("connection", _connection),
    )  # fmt: skip
    for what, look in looks:
        try:
            yield Checked(True, what, look(site))
        except InputError as error:
            yield Checked(False, what, str(error))
        except OSError as error:
            yield Checked(False, what, f"expected a file that can be used, got '{error}'; mend it.")


def _versions(site: Site) -> str:
    from importlib.metadata import PackageNotFoundError, version

    require_flower()
    try:
        opendp = version("opendp")
    except PackageNotFoundError:
        raise InputError('exact noise needs OpenDP, got none; pip install "fedspd[flower]".') from None
    from fedspd.engine.release import Exact, release
    from fedspd.typing import Query

    release(Query(np.zeros(1), np.zeros(1)), Exact(1.0))  # draws once, so that a broken library is found here
    return f"fedspd {__version__}, flwr {version('flwr')}, opendp {opendp}"


def _schema(site: Site) -> str:
    schema = read_schema(site.path("schema"))
    return f"{len(schema.inputs)} columns, classes {', '.join(schema.target.classes)}, digest {schema.digest}"


def _table(site: Site) -> str:
    unit: Any = "record" if site.budget is None else site.budget.unit
    records = count_of(unit, read_table(site.path("data"), read_schema(site.path("schema")), unit))
    if unit == "client":
        return "all rows are protected as one; runs on secure sums only, and nobody is told how many there are"
    held = int(held_out_sizes(np.array([records]), site.policy.held_out or 0.0)[0])
    if site.budget is not None and records - held < site.policy.min_batch:
        raise InputError(
            f"expected at least policy.min_batch = {site.policy.min_batch} {unit}s{' to train on' * bool(held)}, got "
            f"{records - held}; no run would fit."
        )
    kept = f"; {held} of them are held out of every run" if held else ""
    return f"{records} {unit}s; every run tells the server this number{kept}"


def _bounds(site: Site) -> str:
    found = quality(site.path("data"), read_schema(site.path("schema")))
    odd = [
        f"{column}: " + ", ".join(f"{count} {kind}" for kind, count in counts.odd.items())
        for column, counts in found.items()
        if counts.odd
    ]
    told = "; ".join(odd[:8]) + (f"; and {len(odd) - 8} columns more" if len(odd) > 8 else "")
    return (
        f"as the schema expects, but for {told} (counted as missing, or moved onto the bounds)"
        if odd
        else "all as declared"
    )


def _key(site: Site) -> str:
    key = read_identity(site.path("key")).public
    if not site.path("members").exists():
        return f"{key.fingerprint}; no {site.place.members}, so masked runs are refused"
    members = read_members(site.path("members"))
    if site.name not in members:
        return f"{key.fingerprint}; not in {site.place.members} yet, so masked runs are refused"
    if members[site.name] != key:
        raise InputError(
            f"expected the key that {site.place.members} has for {site.name}, got {key.fingerprint}; compare."
        )
    if not members.threshold:
        return f"{key.fingerprint}; no threshold in {site.place.members}, so masked runs are refused"
    beside = members.cohorts.count(members.cohort(site.name))
    masked = f"masked runs sum at least {members.threshold} of {beside} sites, {members.colluders} may collude"
    return f"{key.fingerprint}, as {site.place.members} has it; {masked}"


def _ledger(site: Site) -> str:
    if site.budget is None:
        return "none: the site calls its records unprotected"
    with Store(site.path("store")) as store, store.turn():
        spending = Spending(site, store, Session(), lambda line: None)
        try:
            told, rows = spending.told(), spending.ledger.head.rows
        finally:
            spending.close()
    beside = f", witness {site.witness}" if site.witness else "; no witness: name one on another disk"
    return f"{rows} rows, {told} at delta {site.budget.delta:g} spent{beside}"


def _certificate(site: Site) -> str:
    path = site.folder / _server(site).authority
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"expected the authority's certificate at {path}, got '{error}'; ask the operator.") from None
    days = max((one.not_valid_after_utc - datetime.now(UTC)).days for one in found)
    if days < 0:
        raise InputError(f"expected a certificate that holds, got {path.name}, which has ended; ask for the new one.")
    return f"{path.name} holds for {days} days" + ("; ask for the next one soon" if days < SOON else "")


def _server(site: Site) -> Server:
    if site.server is None:
        raise InputError("expected a [server] with its address, got none; add it.")
    return site.server


def _connection(site: Site) -> str:
    address, authority = _server(site).address, _server(site).authority
    try:
        context = ssl.create_default_context(cafile=str(site.folder / authority))
        answer = httpx.get(f"https://{address}/v1/control/", verify=context, timeout=10.0)
    except (httpx.HTTPError, OSError, ValueError, httpx.InvalidURL) as error:
        raise InputError(
            f"expected the server at {address}, got '{error}'; is it running, and the way to it open?"
        ) from None
    if (answer.status_code, answer.text) != (404, "not here"):
        raise InputError(f"expected a fedspd server at {address}, got another one (HTTP {answer.status_code}).")
    return f"{address} answers, and its certificate is signed by {authority}"
