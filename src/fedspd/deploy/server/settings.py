"""A run as Flower's run configuration has it: `deploy.*` below, and every other setting of `fedspd settings`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedspd.config import Config, changed, parse, parse_section
from fedspd.deploy.masks.member import SMALLEST_GROUP
from fedspd.deploy.protocol.terms import PLAIN, SECURE
from fedspd.errors import InputError
from fedspd.settings import setting


@dataclass(frozen=True)
class Deploy:
    """What a server decides about a deployed run."""

    name: str = setting("run", "names the run in reports and in the sites' ledgers")
    folder: str = setting("", "the server's folder: checkpoint, history, model, statement", needed=True)
    schema: str = setting("", "the schema that all sites share", needed=True)
    sites: int = setting(2, "sites the run waits for before it starts", at_least=1)
    quorum: int = setting(1, "fewest answers that a round, and the start, can do with", at_least=1)
    start_seconds: float = setting(120.0, "how long the run waits for its sites", above=0)
    round_seconds: float = setting(60.0, "how long a round waits for its answers", above=0)
    aggregation: str = setting(
        PLAIN, "secure: the server sees sums of uploads only, by SecAgg+", choices=(PLAIN, SECURE)
    )
    neighbors: int = setting(0, "secure: sites that each shares its masks with; 0: all", at_least=0)
    test: str = setting("", "CSV file with public records that models are measured on; empty: none")
    fixed_draws: bool = setting(False, "draw from run.seed, for tests; sites with a budget refuse")


@dataclass(frozen=True)
class RunSettings:
    """Everything a server needs to know."""

    deploy: Deploy
    config: Config

    @property
    def folder(self) -> Path:
        """The server's folder."""
        return Path(self.deploy.folder)

    @property
    def text(self) -> str:
        """All settings that a resumed run must share; how long it waits may change."""
        kept = {key: value for key, value in asdict(self.deploy).items() if not key.endswith("_seconds")}
        return json.dumps({"deploy": kept, "config": self.config.to_dict()}, sort_keys=True)

    def for_sites(self, count: int) -> Config:
        """The settings for so many sites; no more take part in a round than there are, and nothing reads them all."""
        return changed(
            self.config,
            {
                "partition.clients": count,
                "run.participants": min(self.config.run.participants, count),
                "metrics.criterion": False,
            },
        )


def read_run_config(values: Mapping[str, Any]) -> RunSettings:
    """Check Flower's flat run configuration, whose keys are section.key."""
    sections: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, dot, key = name.partition(".")
        if not dot:
            raise InputError(f"a setting must be named section.key, got {name!r}; for example run.rounds.")
        sections.setdefault(section, {})[key] = value
    deploy = parse_section({"deploy": Deploy}, "deploy", sections.pop("deploy", {}))
    config = parse(sections)
    most = min(deploy.sites, config.run.participants)
    if deploy.quorum > most:
        raise InputError(
            f"deploy.quorum must be at most deploy.sites and run.participants, {most}, got {deploy.quorum}; lower it."
        )
    if deploy.aggregation == SECURE and deploy.quorum < SMALLEST_GROUP:
        raise InputError(
            f"deploy.quorum must be at least {SMALLEST_GROUP} for secure aggregation, got {deploy.quorum}; raise it."
        )
    return RunSettings(deploy, config)
