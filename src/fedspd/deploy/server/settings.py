"""A federation as its operator describes it: federation.toml, with the run's settings, the server's and the sites."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedspd.assemble.finished.evaluation import LEAST_SIZE
from fedspd.config import Config, changed, parse
from fedspd.deploy.protocol.identity import SMALLEST_GROUP, Members, PublicKey, check_name, read_public_key
from fedspd.deploy.protocol.sums import SHARED, check_shared
from fedspd.deploy.protocol.terms import MOST_RECORDS, NOT_HERE, PLAIN, SECURE
from fedspd.errors import InputError
from fedspd.evaluate.counting import BINS
from fedspd.privacy.shared_noise import usual_colluders, usual_threshold
from fedspd.reading import overridden, parse_section, read_toml, setting


@dataclass(frozen=True)
class Federation:
    """What a server decides about a deployed run."""

    name: str = setting("run", "names the run in reports and in the sites' ledgers")
    folder: str = setting("server", "the server's folder: checkpoint, run folder; a folder holds one run")
    schema: str = setting("schema.toml", "the schema that all sites share")
    sites: int = setting(0, "sites the run waits for before it starts; 0: all of them", at_least=0)
    quorum: int = setting(1, "fewest answers that a round, and the start, can do with", at_least=1)
    start_seconds: float = setting(600.0, "how long the run waits for its sites", above=0)
    round_seconds: float = setting(60.0, "how long a round waits for its answers", above=0)
    aggregation: str = setting(PLAIN, "secure: the server sees sums of uploads only", choices=(PLAIN, SECURE))
    threshold: int | None = setting(
        None, "secure: fewest sites in a sum; absent: four fifths, or one less than all of few", at_least=SMALLEST_GROUP
    )
    colluders: int | None = setting(
        None, "secure: sites that may side with the server; absent: so many that two thirds in a sum do not", at_least=0
    )
    largest_weight: float = setting(1000.0, "weights are kept within this, whatever sites upload", above=0)
    test: str = setting("", "CSV file with public records that models are measured on; empty: none")
    fixed_draws: bool = setting(False, "draw from run.seed, for tests; sites with a budget refuse")


@dataclass(frozen=True)
class Measure:
    """How the model is measured, once, after the last round, on what the sites held out (`evaluation.held_out`)."""

    bins: int = setting(BINS, "into which scores are put; an even number", at_least=2)
    subgroup: str = setting("", "a declared column by whose levels the model is measured too; empty: none")
    least_size: int = setting(LEAST_SIZE, "show a subgroup from so many persons or records on", at_least=1)
    average: bool = setting(False, "measure the mean of the last rounds' models, in place of the last one")


@dataclass(frozen=True)
class Listen:
    """Where the sites reach the server. Nothing but Flower's Fleet API is there."""

    host: str = setting("127.0.0.1", "address that the server listens on; 0.0.0.0: all of the machine's")
    port: int = setting(9092, "port that the sites connect to", at_least=1, at_most=65535)
    certificate: str = setting("keys/server.pem", "the server's certificate")
    key: str = setting("keys/server.key", "its private key")
    database: str = setting("", "SQLite file for messages under way; empty: in memory, and nothing is lost by that")
    health_port: int = setting(
        0, "port of 127.0.0.1 with a health line and /metrics; 0: none", at_least=0, at_most=65535
    )


@dataclass(frozen=True)
class Seat:
    """A site as the operator knows it."""

    name: str = setting("", "the site's name", needed=True)
    key: str = setting("", "the line of its .pub file; empty: not there yet")
    most_records: int = setting(
        0,
        "a claim of more records is refused; 0: of 20 times the median of the others",
        at_least=0,
        at_most=MOST_RECORDS,
    )


SECTIONS: dict[str, Any] = {"federation": Federation, "measure": Measure, "listen": Listen, "site": Seat}


@dataclass(frozen=True)
class RunSettings:
    """Everything a server needs to know."""

    federation: Federation
    config: Config
    seats: tuple[Seat, ...]
    listen: Listen
    home: Path  # paths are relative to it
    measure: Measure = Measure()

    @property
    def folder(self) -> Path:
        """The server's folder."""
        return self.home / self.federation.folder

    @property
    def members(self) -> Members:
        """The sites whose keys are known, and the threshold of masked runs once there are enough of them."""
        sites = [(seat.name, _key(seat)) for seat in self.seats if seat.key]
        cohorts = dealt([name for name, _ in sites], self.cohorts)
        smallest = len(sites) // self.cohorts
        threshold, colluders = masked_group(smallest, self.federation.threshold, self.federation.colluders)
        return Members(sites, threshold, colluders, cohorts) if smallest >= threshold else Members(sites)

    @property
    def cohorts(self) -> int:
        """By how many cohorts the sites are summed."""
        return (self.config.privacy.cohorts or 1) if self.config.privacy.trust == SHARED else 1

    @property
    def fewest(self) -> int:
        """Answers that a round can do with; of several cohorts, each below its threshold is left out of its round."""
        return self.federation.quorum if self.cohorts == 1 else self.members.threshold

    @property
    def sites(self) -> int:
        """How many sites the run waits for."""
        return self.federation.sites or len(self.seats)

    @property
    def most_records(self) -> dict[str, int]:
        """The largest claim that is believed of each site."""
        return {seat.name: seat.most_records for seat in self.seats}

    @property
    def text(self) -> str:
        """All settings that a resumed run must share; how long it waits may change."""
        kept = {key: value for key, value in asdict(self.federation).items() if not key.endswith("_seconds")}
        parts = {"federation": kept, "config": self.config.to_dict(), "measure": asdict(self.measure)}
        return json.dumps(parts, sort_keys=True)

    def for_sites(self, count: int, cohorts: int | None = None) -> Config:
        """The settings for so many sites; no more take part in a round than there are, and nothing reads them all.

        Args:
            count: of the sites.
            cohorts: in which they are; None: in as many as the operator wants.
        """
        cohorts = cohorts or self.cohorts
        values: dict[str, Any] = {
            "partition.clients": count,
            "run.participants": self._participants(count, cohorts),
            "metrics.criterion": False,
        }
        if self.config.privacy.trust == SHARED:  # the federation says who must be in a sum, and who may tell
            members = self.members
            values |= {"privacy.cohorts": cohorts, "privacy.threshold": members.threshold or None}
            values |= {"privacy.colluders": members.colluders}
        return changed(self.config, values)

    def _participants(self, count: int, cohorts: int) -> int:
        """Of so many sites; where they are summed by cohorts, as many as make the same number of cohorts, or all."""
        asked = min(self.config.participants, self.sites)
        if self.cohorts == 1:
            return min(asked, count)
        return round(min(round(asked * self.cohorts / self.sites), cohorts) * count / cohorts)


def dealt(sites: Sequence[str], cohorts: int) -> dict[str, int]:
    """Sites dealt to cohorts by a hash of all their names, in whatever order they are; empty where all are one.

    Nobody draws, so the server and `members.toml` agree, and everybody can deal them again.
    """
    if cohorts == 1:
        return {}
    together = "\n".join(sorted(sites))
    shuffled = sorted(sites, key=lambda name: hashlib.sha256(f"cohorts\n{name}\n\n{together}".encode()).digest())
    cohort = {name: 1 + place % cohorts for place, name in enumerate(shuffled)}
    return {name: cohort[name] for name in sites}


def masked_group(sites: int, threshold: int | None = None, colluders: int | None = None) -> tuple[int, int]:
    """Threshold and colluders of a federation: what its operator says, or by a rule that lets one of four be absent."""
    if threshold is None:
        threshold = max(SMALLEST_GROUP, min(usual_threshold(sites), sites - 1))
    return threshold, usual_colluders(sites, threshold) if colluders is None else colluders


def read_federation(path: Path, overrides: Mapping[str, Any] | None = None) -> RunSettings:
    """Read and check federation.toml; overrides name settings as section.key."""
    values = read_toml(path, "a federation.toml", "write one with `fedspd deploy init`.")
    return parse_federation(overridden(values, overrides or {}), path.resolve().parent)


def parse_federation(values: Mapping[str, Any], home: Path) -> RunSettings:
    """Check a federation's file."""
    sections = dict(values)
    seats = sections.pop("site", None)
    if not isinstance(seats, list) or not seats:
        raise InputError("a federation must have a [[site]] table for each site, got none; add them.")
    seats = tuple(parse_section(SECTIONS, "site", seat) for seat in seats)
    federation = parse_section(SECTIONS, "federation", sections.pop("federation", {}))
    listen = parse_section(SECTIONS, "listen", sections.pop("listen", {}))
    measure = parse_section(SECTIONS, "measure", sections.pop("measure", {}))
    _refuse_idle(sections)
    settings = RunSettings(federation, parse(sections), seats, listen, home, measure)
    _check(settings)
    return settings


def _refuse_idle(sections: Mapping[str, Any]) -> None:
    """Refuse settings of a simulation that would have no effect here."""
    for section, keys in sections.items():
        for key in keys if isinstance(keys, Mapping) else ():
            why = NOT_HERE.get(f"{section}.{key}") or NOT_HERE.get(section)
            if why is not None:
                raise InputError(f"{section}.{key} has no effect between real sites: {why}; leave it out.")


def _check(settings: RunSettings) -> None:
    federation, names = settings.federation, [seat.name for seat in settings.seats]
    for name in names:
        check_name(name)
    if len(set(names)) < len(names):
        raise InputError(f"each site must have a name of its own, got {', '.join(names)}; rename one.")
    check_name(federation.name, "federation.name")
    if federation.sites > len(names):
        raise InputError(
            f"federation.sites must be at most the [[site]] tables, {len(names)}, got {federation.sites}; lower it."
        )
    _check_threshold(settings)
    _check_measure(settings)
    members = settings.members  # refuses keys that are none, and a threshold that does not fit
    most = min(settings.sites, settings.config.participants)
    if federation.quorum > most:
        raise InputError(
            f"federation.quorum must be at most federation.sites and run.participants, {most}, got "
            f"{federation.quorum}; lower it."
        )
    fewest = max(SMALLEST_GROUP, members.threshold)
    if federation.aggregation == SECURE and federation.quorum < fewest:
        raise InputError(
            f"federation.quorum must be at least {fewest} for secure aggregation, the threshold below which nothing is "
            f"summed, got {federation.quorum}; raise it."
        )
    if settings.config.privacy.trust == SHARED:
        check_shared(federation.aggregation, settings.config.privacy, members.threshold, members.colluders)


def _check_measure(settings: RunSettings) -> None:
    measure = settings.measure
    if settings.config.evaluation.held_out is None and measure != Measure():
        raise InputError(
            "[measure] has no effect without evaluation.held_out, the share of records that models are measured on; "
            "set that, or leave [measure] out."
        )
    if not measure.subgroup and measure.least_size != LEAST_SIZE:
        raise InputError(
            f"measure.least_size is of subgroups, got {measure.least_size} and no measure.subgroup; name its column."
        )


def _check_threshold(settings: RunSettings) -> None:
    """Refuse one that a cohort could never reach, whether the keys of all sites are known already or not."""
    smallest = len(settings.seats) // settings.cohorts
    for name, asked in (
        ("federation.threshold", settings.federation.threshold),
        ("privacy.threshold", settings.config.privacy.threshold),
    ):
        if asked is not None and asked > smallest:
            cohort = "there are" if settings.cohorts == 1 else f"of the smallest of {settings.cohorts} cohorts"
            raise InputError(
                f"{name} must be at most the sites {cohort}, {smallest}, or nothing would ever be summed, got {asked}; "
                "lower it, or leave it out."
            )


def _key(seat: Seat) -> PublicKey:
    try:
        return read_public_key(seat.key)
    except InputError as error:
        raise InputError(f"the key of site {seat.name!r}: {error}") from None
