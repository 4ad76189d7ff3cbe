"""A federation's folder for its operator: settings, certificates, and an archive for each site to take home."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fedspd import config as configuration
from fedspd.config import Config
from fedspd.data import adult_schema, read_schema, schema_text, write_adult_csv
from fedspd.data.adult import ROWS
from fedspd.deploy.protocol.identity import check_name
from fedspd.deploy.protocol.terms import SECURE
from fedspd.deploy.setup.keys import LOOPBACK, write_certificates
from fedspd.deploy.setup.kit import Kit, members_text, write_kit
from fedspd.engine.draws import stream
from fedspd.errors import InputError
from fedspd.settings import SECTIONS

ROUNDS = 10  # few sites hold many records each, and want shorter steps than the rule's five rounds give
MOST_SITES = 1000
OF_THE_SCHEMA = ("data.name", "data.columns", "data.log_capital", "data.split")
WORTH_A_LOOK = ("privacy.epsilon", "privacy.delta", "run.rounds", "run.participants", "run.seed", "algorithm.name")
HEADER = """# A federation, as its operator runs it: fedspd deploy server federation.toml. Paths are relative to it.
# Settings of `fedspd settings` may be added before the run begins, but for those that only a simulation has.

"""
SITE = """
[[site]]
name = "{name}"
key = "{key}"
most_records = 10000000
"""


@dataclass(frozen=True)
class Plan:
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


def write_federation(plan: Plan) -> list[Path]:
    """Write the folder; the sites' archives are returned."""
    folder = plan.folder.resolve()
    _check(plan, folder)
    schema = adult_schema() if plan.schema is None else read_schema(plan.schema)
    config = _settings(plan)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.toml").write_text(schema_text(schema))
    certificates = write_certificates(folder / "keys", tuple(dict.fromkeys([*plan.hosts, *LOOPBACK])))
    kit = Kit(
        address=f"{plan.hosts[0]}:{plan.port}", authority=certificates.authority.read_bytes(),
        schema=schema_text(schema), epsilon=plan.epsilon, delta=plan.delta, clip_norm=config.problem.clip_norm,
        row_norm=config.data.row_norm or 1.0, own_key=plan.own_keys,
    )  # fmt: skip
    keys = {name: "" if plan.own_keys else kit.new_key(name) for name in plan.sites}
    members = None if plan.own_keys else members_text(keys)  # it is made when the keys have arrived
    if members is not None:
        (folder / "members.toml").write_text(members)
    (folder / "federation.toml").write_text(_federation(plan, folder, config, keys))
    (folder / "kits").mkdir(mode=0o700)
    archives = []
    for name, records in zip(plan.sites, _records(plan, folder), strict=True):
        archives.append(write_kit(folder / "kits", replace(kit, records=records), name, members))
    return archives


def _check(plan: Plan, folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"expected a new or empty folder, got {plan.folder}; name another one.")
    if not 1 <= len(plan.sites) <= MOST_SITES:
        raise InputError(f"expected 1 to {MOST_SITES} sites, got {len(plan.sites)}; change --sites.")
    for name in plan.sites:
        check_name(name)
    if len(set(plan.sites)) < len(plan.sites):
        raise InputError(f"each site must have a name of its own, got {', '.join(plan.sites)}; rename one.")
    if plan.schema is None and len(plan.sites) > ROWS[0]:
        raise InputError(f"Adult has {ROWS[0]} records, got {len(plan.sites)} sites; lower --sites.")


def _settings(plan: Plan) -> Config:
    wanted = {
        "privacy.epsilon": plan.epsilon,
        "privacy.delta": plan.delta,
        "partition.clients": len(plan.sites),
        "run.participants": len(plan.sites),
        "run.rounds": ROUNDS,
    }
    return configuration.load("proved", wanted)


def _federation(plan: Plan, folder: Path, config: Config, keys: dict[str, str]) -> str:
    count = len(plan.sites)
    federation: dict[str, Any] = {
        "name": folder.name,
        "folder": "server",
        "schema": "schema.toml",
        "quorum": min(count, max(3 if plan.aggregation == SECURE else 1, count // 2)),
        "start_seconds": 600.0,
        "round_seconds": 60.0,
        "aggregation": plan.aggregation,
        "neighbors": 0,
        "largest_weight": 1000.0,
        "test": "test.csv" if plan.schema is None else "",
    }
    local = set(plan.hosts) <= set(LOOPBACK)
    listen = {
        "host": "127.0.0.1" if local else "0.0.0.0", "port": plan.port, "certificate": "keys/server.pem",
        "key": "keys/server.key", "database": "", "health_port": 0,
    }  # fmt: skip
    text = tomli_w.dumps({"federation": federation, "listen": listen, **_run_settings(config)})
    return HEADER + text + "".join(SITE.format(name=name, key=key) for name, key in keys.items())


def _run_settings(config: Config) -> dict[str, Any]:
    """What a run between sites reads, of the settings that differ from their defaults or are worth a look."""
    kept: dict[str, Any] = {}
    for section, keys in config.to_dict().items():
        plain = asdict(SECTIONS[section]())
        wanted = {
            key: value for key, value in keys.items() if value != plain.get(key) or f"{section}.{key}" in WORTH_A_LOOK
        }
        kept[section] = {key: value for key, value in wanted.items() if f"{section}.{key}" not in OF_THE_SCHEMA}
    return {section: keys for section, keys in kept.items() if keys and section not in ("partition", "metrics")}


def _records(plan: Plan, folder: Path) -> list[bytes | None]:
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
