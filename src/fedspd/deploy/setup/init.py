"""A ready Flower app folder: the app, the run's settings, and a folder for each site to take home."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fedspd import config as configuration
from fedspd.config import Config
from fedspd.data import adult_schema, read_schema, schema_text, write_adult_csv
from fedspd.data.adult import ROWS
from fedspd.deploy.guard import SCRIPT
from fedspd.deploy.protocol.terms import SECURE
from fedspd.engine.draws import stream
from fedspd.errors import InputError

ROUNDS = 10  # few sites hold many records each, and want shorter steps than the rule's five rounds give

IGNORED = """# None of this is part of the app that travels to the sites.
keys/
server/
sites/
"""

SITE = """# What this site's owner decides. The server never sees this file; paths are relative to it.

[site]
name = "{name}"
data = "records.csv"      # the site's records; they never leave this machine
schema = "schema.toml"    # what the columns mean: public, the same file at every site
ledger = "ledger.db"      # what the records have spent: keep it, and back it up
store = "store.db"        # replies and public state of every run
log = "site.log"          # what was asked, charged and refused

[budget]                  # of all runs and all servers together
epsilon = {epsilon}
delta = {delta}
unit = "record"
relation = "replace-one"

[policy]                  # a server that asks for more is refused
methods = ["fedspd"]
clip_norm = {clip_norm}           # record gradients are clipped to this norm
row_norm = {row_norm}            # records are shortened to this norm
min_batch = 100           # fewest records a gradient is averaged over
most_rounds = 100         # of one run
largest_weight = 1000.0   # that a server may send
"""


@dataclass(frozen=True)
class Plan:
    """What `init` is asked to write."""

    folder: Path
    sites: int
    schema: Path | None  # None: Adult, dealt to the sites
    epsilon: float
    delta: float
    aggregation: str


def write_app(plan: Plan) -> list[Path]:
    """Write the folder; the sites' own folders are returned."""
    folder = plan.folder.resolve()
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"expected a new or empty folder, got {plan.folder}; name another one.")
    if plan.sites < 1:
        raise InputError(f"expected at least one site, got {plan.sites}; raise --sites.")
    schema = adult_schema() if plan.schema is None else read_schema(plan.schema)
    config = _settings(plan)
    sites = [folder / "sites" / f"site-{number}" for number in range(1, plan.sites + 1)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text(IGNORED)
    (folder / "schema.toml").write_text(schema_text(schema))
    (folder / "pyproject.toml").write_text(_project(plan, folder, config))
    for site in sites:
        (site / "bin").mkdir(parents=True)
        (site / "bin" / "flwr-clientapp").write_text(SCRIPT)
        (site / "bin" / "flwr-clientapp").chmod(0o755)
        (site / "schema.toml").write_text(schema_text(schema))
        (site / "site.toml").write_text(_site(plan, site.name, config))
    if plan.schema is None:
        _deal_adult(folder, sites)
    return sites


def _settings(plan: Plan) -> Config:
    wanted = {
        "privacy.epsilon": plan.epsilon,
        "privacy.delta": plan.delta,
        "partition.clients": plan.sites,
        "run.participants": plan.sites,
        "run.rounds": ROUNDS,
    }
    return configuration.load("proved", wanted)


def _project(plan: Plan, folder: Path, config: Config) -> str:
    """The app as Flower wants it; every setting may be changed here or with `flwr run --run-config`."""
    deploy: dict[str, Any] = {
        "name": folder.name,
        "folder": str(folder / "server"),
        "schema": str(folder / "schema.toml"),
        "sites": plan.sites,
        "quorum": min(plan.sites, max(3 if plan.aggregation == SECURE else 1, plan.sites // 2)),
        "start_seconds": 120.0,
        "round_seconds": 60.0,
        "aggregation": plan.aggregation,
        "neighbors": 0,
        "test": str(folder / "test.csv") if plan.schema is None else "",
    }
    kept = {name: keys for name, keys in config.to_dict().items() if name not in ("partition", "metrics")}
    for key in ("columns", "log_capital", "name", "split"):  # the schema says these
        kept["data"].pop(key)
    kept["run"].pop("engine")
    return tomli_w.dumps(
        {
            "project": {
                "name": "fedspd-app",
                "version": "1.0.0",
                "description": "Private federated learning by fedspd",
                "license": "Apache-2.0",
                "dependencies": ["fedspd[flower]"],
            },
            "tool": {
                "flwr": {
                    "app": {
                        "publisher": "fedspd",
                        "components": {
                            "serverapp": "fedspd.deploy.app:server_app",
                            "clientapp": "fedspd.deploy.app:client_app",
                        },
                        "config": {"deploy": deploy, **kept},
                    }
                }
            },
        }
    )


def _site(plan: Plan, name: str, config: Config) -> str:
    return SITE.format(
        name=name, epsilon=plan.epsilon, delta=plan.delta, clip_norm=config.problem.clip_norm,
        row_norm=config.data.row_norm,
    )  # fmt: skip


def _deal_adult(folder: Path, sites: list[Path]) -> None:
    """Adult's training records dealt to the sites at random, its test records as the server's public ones."""
    order = stream(0, "partition").permutation(ROWS[0])
    for site, rows in zip(sites, np.array_split(order, len(sites)), strict=True):
        write_adult_csv(site / "records.csv", np.sort(rows))
    write_adult_csv(folder / "test.csv", np.arange(ROWS[1]), "test")
