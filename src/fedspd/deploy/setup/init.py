"""A federation's folder for its operator: settings, certificates, and an archive for each site to take home."""

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fedspd import config as configuration
from fedspd.config import Config
from fedspd.data import adult_schema, read_schema, schema_text, write_adult_csv
from fedspd.data.adult import ROWS
from fedspd.deploy.protocol.identity import SMALLEST_GROUP, check_name
from fedspd.deploy.protocol.terms import SECURE, settings_between_sites
from fedspd.deploy.server.settings import masked_group, parse_federation
from fedspd.deploy.setup.keys import LOOPBACK, check_host, write_certificates
from fedspd.deploy.setup.kit import Kit, members_text, write_kit
from fedspd.engine.draws import stream
from fedspd.errors import InputError

CLIP_NORM = 0.5  # said here, since sites agree to it before anybody knows how many records they hold
ROUNDS_AT_MOST = 100  # what a site's policy allows by default
MOST_SITES = 1000
WORTH_A_LOOK = (
    "privacy.epsilon",
    "privacy.delta",
    "run.rounds_at_most",
    "run.participants",
    "run.seed",
    "algorithm.name",
)
HEADER = """# A federation, as its operator runs it: fedspd deploy server federation.toml. Paths are relative to it.
# Settings of `fedspd settings` may be added before the run begins, but for those that only a simulation has.

"""
SITE = """
[[site]]
name = "{name}"
key = "{key}"
most_records = 0
"""


@dataclass(frozen=True)
class SetupPlan:
    """What `init` is asked to write."""

    folder: Path
    sites: tuple[str, ...]
    schema: Path | None  # None: Adult, dealt to the sites
    epsilon: float
    delta: float
    aggregation: str
    hosts: tuple[str, ...] = LOOPBACK
    port: int = 9092
    own_keys: bool = False  # sites make their own


def write_federation(plan: SetupPlan) -> list[Path]:
    """Write the folder; the sites' archives are returned.

    Guarantees:
        The folder is there whole or not at all, and its federation.toml can be read.
    """
    _check(plan)
    try:
        folder = plan.folder.resolve()
        occupied = folder.exists() and any(folder.iterdir())
    except (OSError, RuntimeError) as error:  # a loop of links is the latter
        reason = error.strerror if isinstance(error, OSError) else "a loop of links"
        raise InputError(f"expected a new or empty folder, got {plan.folder} ({reason}); name another one.") from None
    if occupied:
        raise InputError(f"expected a new or empty folder, got {plan.folder}; name another one.")
    try:
        with drafted(folder) as draft:
            archives = _write(plan, draft, _name(folder))
    except OSError as error:
        raise InputError(
            f"expected a new folder that can be written, got {plan.folder} ({error.strerror}); name another one."
        ) from None
    return [folder / archive.relative_to(draft) for archive in archives]


@contextmanager
def drafted(folder: Path) -> Iterator[Path]:
    """A folder to write into, whose content is that of `folder` at the end; `folder` is new or empty.

    Guarantees:
        Whatever interrupts the writing, Ctrl-C included, `folder` and those above it are as they were.
    """
    stood = folder.exists()  # then it stays the same folder: people may be in it, and a disk may be mounted there
    draft = folder / f".draft.{os.getpid()}" if stood else folder.with_name(f".{folder.name[:200]}.{os.getpid()}")
    made = [above for above in draft.parents if not above.exists()]
    moved: list[Path] = []
    try:
        draft.mkdir(parents=True)
        yield draft
        if not stood:
            draft.replace(folder)
            return
        for path in sorted(draft.iterdir()):
            moved.append(path.replace(folder / path.name))
        draft.rmdir()
    except BaseException:
        for path in (draft, *moved):
            _remove(path)
        for above in made:
            with suppress(OSError):  # somebody else may have moved in
                above.rmdir()
        raise


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _write(plan: SetupPlan, folder: Path, name: str) -> list[Path]:
    schema = adult_schema() if plan.schema is None else read_schema(plan.schema)
    config = _settings(plan)
    (folder / "schema.toml").write_text(schema_text(schema))
    certificates = write_certificates(folder / "keys", tuple(dict.fromkeys([*plan.hosts, *LOOPBACK])))
    kit = Kit(
        address=_address(plan.hosts[0], plan.port), authority=certificates.authority.read_bytes(),
        schema=schema_text(schema), epsilon=plan.epsilon, delta=plan.delta, clip_norm=CLIP_NORM,
        row_norm=config.data.row_norm or 1.0, own_key=plan.own_keys,
    )  # fmt: skip
    keys = {name: "" if plan.own_keys else kit.new_key(name) for name in plan.sites}
    federation = _federation(plan, name, config, keys)
    settings = parse_federation(tomllib.loads(federation), folder)  # nobody gets a file that a server refuses
    (folder / "federation.toml").write_text(federation)
    members = None if plan.own_keys else members_text(settings.members)  # it is made when the keys have arrived
    if members is not None:
        (folder / "members.toml").write_text(members)
    (folder / "kits").mkdir(mode=0o700)
    archives = []
    for site, records in zip(plan.sites, _records(plan, folder), strict=True):
        archives.append(write_kit(folder / "kits", replace(kit, records=records), site, members))
    return archives


def _check(plan: SetupPlan) -> None:
    if not 1 <= len(plan.sites) <= MOST_SITES:
        raise InputError(f"expected 1 to {MOST_SITES} sites, got {len(plan.sites)}; change --sites.")
    for name in plan.sites:
        check_name(name)
    if len(set(plan.sites)) < len(plan.sites):
        raise InputError(f"each site must have a name of its own, got {', '.join(plan.sites)}; rename one.")
    if plan.schema is None and len(plan.sites) > ROWS[0]:
        raise InputError(f"Adult has {ROWS[0]} records, got {len(plan.sites)} sites; lower --sites.")
    if plan.aggregation == SECURE and len(plan.sites) < SMALLEST_GROUP:
        raise InputError(
            f"expected at least {SMALLEST_GROUP} sites for secure aggregation, got {len(plan.sites)}; a sum of fewer "
            "tells what each of them sent."
        )
    for host in plan.hosts:
        check_host(host)
    if not 0 < plan.epsilon < inf:
        raise InputError(f"expected a finite --epsilon above 0, got {plan.epsilon}; it is each site's budget.")
    if not 0 < plan.delta < 1:
        raise InputError(f"expected a --delta above 0 and below 1, got {plan.delta}; change it.")


def _name(folder: Path) -> str:
    """What the federation is called: as its folder, in letters that a name may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.name).lstrip("._-")[:60].rstrip("-") or "federation"


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listens(hosts: tuple[str, ...]) -> str:
    """The address that the server listens on: the machine's own only, where nobody else is to call it."""
    if set(hosts) <= set(LOOPBACK):
        return LOOPBACK[0]
    if ":" not in hosts[0]:
        return "0.0.0.0"
    return hosts[0] if ip_address(hosts[0]).is_loopback else "::"


def _settings(plan: SetupPlan) -> Config:
    wanted = {
        "privacy.epsilon": plan.epsilon,
        "privacy.delta": plan.delta,
        "partition.clients": len(plan.sites),
        "run.participants": len(plan.sites),
        "run.rounds_at_most": ROUNDS_AT_MOST,
        "problem.clip_norm": CLIP_NORM,
    }
    return configuration.load("proved", wanted)


def _federation(plan: SetupPlan, name: str, config: Config, keys: dict[str, str]) -> str:
    count, masked = len(plan.sites), plan.aggregation == SECURE
    threshold, colluders = masked_group(count)
    federation: dict[str, Any] = {
        "name": name,
        "folder": "server",
        "schema": "schema.toml",
        "quorum": threshold if masked else max(1, count // 2),
        "start_seconds": 600.0,
        "round_seconds": 60.0,
        "aggregation": plan.aggregation,
        **({"threshold": threshold, "colluders": colluders} if masked else {}),
        "largest_weight": 1000.0,
        "test": "test.csv" if plan.schema is None else "",
    }
    listen = {
        "host": _listens(plan.hosts), "port": plan.port, "certificate": "keys/server.pem",
        "key": "keys/server.key", "database": "", "health_port": 0,
    }  # fmt: skip
    text = tomli_w.dumps({"federation": federation, "listen": listen, **_run_settings(config)})
    return HEADER + text + "".join(SITE.format(name=name, key=key) for name, key in keys.items())


def _run_settings(config: Config) -> dict[str, Any]:
    """What a run between sites reads, of the settings that differ from their defaults or are worth a look."""
    kept = {
        section: {
            key: value
            for key, value in keys.items()
            if f"{section}.{key}" in WORTH_A_LOOK or value != config.declared(section)[key].default
        }
        for section, keys in settings_between_sites(config).items()
    }
    return {section: keys for section, keys in kept.items() if keys}


def _records(plan: SetupPlan, folder: Path) -> list[bytes | None]:
    """Adult's training records dealt to the sites at random, its test records as the server's public ones."""
    if plan.schema is not None:
        return [None] * len(plan.sites)
    order, found = stream(0, "partition").permutation(ROWS[0]), list[bytes | None]()
    draft = folder / "part.csv"
    for rows in np.array_split(order, len(plan.sites)):
        write_adult_csv(draft, np.sort(rows))
        found.append(draft.read_bytes())
    draft.unlink()
    write_adult_csv(folder / "test.csv", np.arange(ROWS[1]), "test")
    return found
