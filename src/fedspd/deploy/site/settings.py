"""What a site's owner decides, in the site's own TOML file: data, ledger, budget, and what a server may ask for.

The server never sees this file. Paths are relative to it.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedspd.algorithms import METHODS
from fedspd.deploy.protocol.identity import Identity, Members, check_name, read_identity, read_members
from fedspd.deploy.protocol.terms import deployed_methods
from fedspd.errors import InputError
from fedspd.privacy.ledger import Budget, SecondPlace
from fedspd.reading import parse_section, read_toml, setting

PROVED = tuple(name for name in deployed_methods() if METHODS[name].guarantee == "proved")


SITE_UNITS = ("record", "person", "client")
"""What a site may protect; the last one is the whole site."""


@dataclass(frozen=True)
class Place:
    """Who the site is and where its files are."""

    name: str = setting("", "the site's name in its ledger and in every report", needed=True)
    data: str = setting("", "CSV file with the site's records", needed=True)
    schema: str = setting("", "the schema that all sites share", needed=True)
    key: str = setting("site.key", "the site's private key, whose public half the server knows")
    members: str = setting("members.toml", "public keys of all sites and their threshold, for masked runs")
    ledger: str = setting("ledger.db", "what the site's records have spent")
    store: str = setting("store.db", "replies and public state of every run")
    witness: str = setting("", "a second file that remembers the ledger's head, on another disk; empty: none")
    head_file: str = setting("", "a file that the ledger's head is added to after every run; empty: none")
    head_command: tuple[str, ...] = setting(
        (), "a program and its arguments, which gets the ledger's head on its standard input after every run"
    )
    log: str = setting("site.log", "what was asked, charged and refused")
    unprotected: bool = setting(
        False, "for tests with data that needs no protection: no budget, every method, draws that a server fixes"
    )


@dataclass(frozen=True)
class Server:
    """Where the federation's server is. Sites open connections; nobody connects to a site."""

    address: str = setting("", "host and port of the server", needed=True)
    authority: str = setting("ca.pem", "certificate of the authority that signed the server's")


@dataclass(frozen=True)
class Limits:
    """What a message may take, and what is kept of the log."""

    seconds: float = setting(300.0, "an answer that takes longer is given up", above=0, at_most=86400)
    memory_mb: int = setting(8192, "memory of the process that reads the records", at_least=256, at_most=10**9)
    log_mb: int = setting(10, "the log starts anew at this size; five old ones are kept", at_least=1, at_most=1024)
    health_port: int = setting(
        0, "port of 127.0.0.1 with a health line and /metrics; 0: none", at_least=0, at_most=65535
    )


@dataclass(frozen=True)
class Allowance:
    """The most that the site's releases may cost, over all runs and servers."""

    epsilon: float = setting(1.0, "privacy loss of all runs together", above=0, needed=True)
    delta: float = setting(1e-5, "failure probability", above=0, below=1, needed=True)
    epsilon_alone: float | None = setting(
        None, "the same if everybody else colludes, where sites share noise; absent: such runs are refused", above=0
    )
    unit: str = setting(
        "record",
        "what is protected: a record, a person with all of its rows here, by the schema's column, or the whole client",
        choices=SITE_UNITS,
    )
    relation: str = setting("replace-one", "which tables are neighbors", choices=("replace-one", "zero-out"))


@dataclass(frozen=True)
class Policy:
    """What a server may ask for; everything else is refused before a record is read."""

    methods: tuple[str, ...] = setting(
        ("fedspd",),
        "methods the site takes part in",
        choices=PROVED,
    )
    runs: tuple[str, ...] = setting(("*",), "names of runs the site takes part in; * stands for anything")
    most_epsilon: float | None = setting(None, "most that one run may be planned to spend; absent: the budget", above=0)
    ask: bool = setting(False, "a person confirms each run's terms once, by `fedspd deploy approve`")
    clip_norm: float = setting(0.5, "record gradients are clipped to this norm, and to no other", above=0)
    row_norm: float = setting(1.0, "records are shortened to this norm, and to no other", above=0)
    held_out: float | None = setting(
        None,
        "share of the persons or records that every run holds out to measure its model on, and no other share; absent: "
        "none is held out",
        above=0, below=1,
    )  # fmt: skip
    min_batch: int = setting(100, "fewest records that a gradient is averaged over", at_least=1)
    most_rounds: int = setting(100, "most rounds of one run that the site takes part in", at_least=1)
    largest_weight: float = setting(1000.0, "largest weight a server may send: beyond it rounding would show", above=0)


SECTIONS: dict[str, Any] = {"site": Place, "server": Server, "budget": Allowance, "policy": Policy, "limits": Limits}


@dataclass(frozen=True)
class Site:
    """A site's file, read."""

    folder: Path
    place: Place
    allowance: Allowance | None  # None: nothing here needs protection
    policy: Policy = field(default_factory=Policy)
    server: Server | None = None  # None: the site cannot be started, only asked within a process
    limits: Limits = field(default_factory=Limits)

    @property
    def name(self) -> str:
        """The site's name."""
        return self.place.name

    @property
    def budget(self) -> Budget | None:
        """The budget as the ledger has it."""
        if self.allowance is None:
            return None
        own = self.allowance
        return Budget(own.epsilon, own.delta, own.relation, own.epsilon_alone, own.unit)  # pyright: ignore

    def path(self, name: str) -> Path:
        """One of the site's files, by its key in [site]."""
        return self.folder / getattr(self.place, name)

    @property
    def signing(self) -> tuple[Identity | None, Members | None]:
        """The site's key, and those of the others, where it has them."""
        key, members = self.path("key"), self.path("members")
        return read_identity(key) if key.exists() else None, read_members(members) if members.exists() else None

    @property
    def witness(self) -> Path | None:
        """Where the ledger's head is remembered a second time."""
        return (self.folder / self.place.witness).resolve() if self.place.witness else None

    @property
    def second_place(self) -> SecondPlace:
        """Where the ledger's head is copied to after every run."""
        file = (self.folder / self.place.head_file).resolve() if self.place.head_file else None
        return SecondPlace(file, self.place.head_command)


def _check_paths(place: Place) -> None:
    for key, value in vars(place).items():
        if isinstance(value, str) and not value.isprintable():
            raise InputError(f"site.{key} must be a path of printable characters, got {value!r}; name another one.")


def read_site(path: Path | str) -> Site:
    """Read and check a site's file."""
    path = Path(path)
    values = read_toml(path, "a site's TOML file", "name another one.")
    sections = {name: parse_section(SECTIONS, name, keys) for name, keys in values.items()}
    place = sections.get("site") or parse_section(SECTIONS, "site", {})
    allowance = sections.get("budget")
    if allowance is None and not place.unprotected:
        raise InputError(f"{path} must have a [budget] with epsilon and delta, got none; add it.")
    if allowance is not None and place.unprotected:
        raise InputError(f"{path} has a [budget] and says site.unprotected = true; leave out one of the two.")
    check_name(place.name)
    _check_paths(place)
    limits, policy = sections.get("limits", Limits()), sections.get("policy", Policy())
    return Site(path.resolve().parent, place, allowance, policy, sections.get("server"), limits)
