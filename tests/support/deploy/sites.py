"""Small federations for tests: a schema, sites with records of their own, a run configuration, one process."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fedspd.assemble import Run
from fedspd.data import Schema, read_schema
from fedspd.deploy.protocol import messages, wire
from fedspd.deploy.protocol.identity import Members, read_identity, read_public_key
from fedspd.deploy.protocol.messages import REQUESTS, Ask, Enter, Entered, Measure
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.server.checkpoint import Checkpoint, Member, load
from fedspd.deploy.server.enroll import terms_of
from fedspd.deploy.server.run import Server
from fedspd.deploy.server.settings import RunSettings, dealt, masked_group, parse_federation
from fedspd.deploy.setup.join import join
from fedspd.deploy.setup.keys import write_private_key
from fedspd.deploy.setup.kit import members_text
from fedspd.deploy.site.client import HERE, Client
from fedspd.deploy.site.settings import read_site
from fedspd.deploy.site.store import Store
from fedspd.privacy.ledger import Ledger
from tests.support.deploy.loopback import Loopback

SCHEMA = """
[target]
column = "bought"
classes = ["no", "yes"]

[[columns]]
name = "age"
bounds = [0, 100]

[[columns]]
name = "income"
bounds = [0, 50000]

[[columns]]
name = "color"
levels = ["red", "green", "blue"]
"""
SITE: dict[str, dict[str, Any]] = {
    "site": {"data": "records.csv", "schema": "schema.toml"},
    "budget": {"epsilon": 1.0, "delta": 1e-5},
    "policy": {"clip_norm": 0.5, "row_norm": 1.0, "min_batch": 20, "most_rounds": 20},
}
RUN: dict[str, Any] = {
    "federation.start_seconds": 2.0, "federation.round_seconds": 0.01, "data.scaling": "min-max", "data.bias": 0.25,
    "data.row_norm": 1.0, "problem.clip_norm": 0.5, "algorithm.name": "fedspd", "privacy.epsilon": 1.0,
    "privacy.delta": 1e-5, "run.rounds": 3,
}  # fmt: skip
NO_PRIVACY: dict[str, Any] = {"privacy__epsilon": None, "privacy__delta": None}
"""What a method without privacy does not read, and refuses."""
FIRST_NODE = 100
KIND_OF = {request: kind for kind, request in REQUESTS.items()}


@dataclass
class Federation:
    """A server's folder and sites that answer within this process."""

    folder: Path
    sites: list[Path]
    grid: Loopback
    values: dict[str, Any]
    said: list[str] = field(default_factory=list)
    seat: dict[str, Any] = field(default_factory=dict)  # what the operator says of every site besides
    run: Run | None = None  # what the last run that was served left

    @property
    def settings(self) -> RunSettings:
        return self.settings_with({})

    def settings_with(self, changes: Mapping[str, Any]) -> RunSettings:
        """The federation's file with some settings changed, by "section.key"; None leaves one out."""
        values: dict[str, Any] = {"site": self.seats}
        for name, value in (self.values | dict(changes)).items():
            section, _, key = name.partition(".")
            if value is not None:
                values.setdefault(section, {})[key] = value
        return parse_federation(values, self.folder)

    @property
    def seats(self) -> list[dict[str, Any]]:
        """The sites as the operator knows them."""
        found = []
        for path in self.sites:
            key = read_identity(path.parent / "site.key").public.line
            found.append({"name": path.parent.name, "key": key, **self.seat})
        return found

    @property
    def schema(self) -> Schema:
        return read_schema(self.folder / "schema.toml")

    @property
    def saved(self) -> Checkpoint:
        """The server's state on disk."""
        found = load(self.settings.folder)
        assert found is not None
        return found

    def serve(self) -> Checkpoint:
        """Run to the end, or raise; the last checkpoint."""
        self.run = self.server().run()
        return self.saved

    def server(self) -> Server:
        """A server that has enrolled its sites, or resumed, and not played yet."""
        return Server(self.grid, self.settings, self.said.append)

    def node(self, place: int) -> int:
        return FIRST_NODE + place

    def tell(self, place: int, content: Any) -> Any:
        """Send one site a request, through the wire and the app; its answer."""
        message = wire.request(self.node(place), KIND_OF[type(content)], content, 60.0, "test")
        (number,) = self.grid.push_messages([message])
        (answer,) = self.grid.pull_messages([number])
        return wire.read_answer(answer, KIND_OF[type(content)])

    def terms(self, place: int = 0, run: str = "run-1", **changes: Any) -> Terms:
        """The terms a server with these settings would send; `run__rounds=2` changes run.rounds."""
        dotted = {name.replace("__", "."): value for name, value in changes.items()}
        settings = self.settings_with(dotted)
        members = [Member(path.parent.name, 0, self.records(place)) for place, path in enumerate(self.sites)]
        return terms_of(settings, self.schema, members, run)[place]

    def enter(self, place: int = 0, run: str = "run-1", **changes: Any) -> Terms:
        """Make a site enter a run."""
        terms = self.terms(place, run, **changes)
        answer = self.tell(place, Enter(terms.text))
        assert isinstance(answer, Entered), answer
        return terms

    def records(self, place: int) -> int:
        return len((self.sites[place].parent / "records.csv").read_text().splitlines()) - 1

    def charges(self, place: int = 0) -> int:
        """Rows in a site's ledger that say it was charged."""
        path = self.sites[place].parent / "ledger.db"
        if not path.exists():  # an unprotected site has none
            return 0
        with Ledger(path) as ledger:
            return sum(charged.times for charged in ledger.charges())

    def log(self, place: int = 0) -> str:
        path = self.sites[place].parent / "site.log"
        return path.read_text() if path.exists() else ""

    @contextlib.contextmanager
    def store(self, place: int = 0) -> Iterator[Store]:
        with Store(self.sites[place].parent / "store.db") as store:
            yield store

    @contextlib.contextmanager
    def client(self, place: int = 0, kind: type[Client] = Client) -> Iterator[Client]:
        """A site at work, without the wire and the app around it."""
        with self.store(place) as store:
            yield kind(read_site(self.sites[place]), store, lambda line: None)


def federation(
    folder: Path, count: int = 1, records: int = 120, site: Mapping[str, Any] | None = None, protected: bool = True,
    **run: Any,
) -> Federation:  # fmt: skip
    """Build one; `policy__min_batch` style names change the sites' files by `site`, the run's settings by keywords.

    None leaves a setting of the run out.

    Args:
        folder: an empty one.
        count: sites.
        records: of the first site; each further one has 7 more.
        site: settings of the sites' files to change, by "section.key".
        protected: whether the sites have budgets.
        run: settings of the run.
    """
    close_logs()
    HERE.passed_on.clear()  # of earlier federations, whose terms may be the same
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.toml").write_text(SCHEMA)
    paths = []
    for place in range(count):
        home = folder / f"site-{place}"
        home.mkdir()
        (home / "schema.toml").write_text(SCHEMA)
        write_records(home / "records.csv", records + 7 * place, place)
        paths.append(home / "site.toml")
        paths[-1].write_text(tomli_w.dumps(site_values(home.name, site or {}, protected)))
        write_private_key(home / "site.key")
    values = RUN | {"run.participants": count} | {name.replace("__", "."): value for name, value in run.items()}
    grid = Loopback({FIRST_NODE + place: path for place, path in enumerate(paths)})
    made = Federation(folder, paths, grid, values)
    for path in paths:
        (path.parent / "members.toml").write_text(members_text(members_of(made)))
        join(path, lambda line: None)
    return made


def members_of(made: Federation) -> Members:
    """What the operator writes for the sites: their keys, and the threshold where there are enough of them."""
    sites = [(seat["name"], read_public_key(seat["key"])) for seat in made.seats]
    asked = (made.values.get(f"federation.{name}") for name in ("threshold", "colluders"))
    cohorts = made.values.get("privacy.cohorts", 1)
    numbers, together = masked_group(len(sites) // cohorts, *asked), dealt([name for name, _ in sites], cohorts)
    return Members(sites, *numbers, together) if len(sites) // cohorts >= numbers[0] else Members(sites)


def site_values(name: str, changes: Mapping[str, Any], protected: bool = True) -> dict[str, Any]:
    """A site's file, as a table of tables."""
    values = {section: dict(keys) for section, keys in SITE.items()}
    values["site"]["name"] = name
    if not protected:
        del values["budget"]
        values["site"]["unprotected"] = True
    for dotted, value in changes.items():
        section, _, key = dotted.partition(".")
        values.setdefault(section, {})[key] = value
    return values


def write_records(path: Path, count: int, seed: int) -> None:
    """Records whose label depends on their columns."""
    rng = np.random.default_rng(seed)
    ages, incomes = rng.integers(18, 90, count), rng.integers(0, 50_000, count)
    colors = rng.choice(["red", "green", "blue"], count)
    bought = np.where(ages / 50 + incomes / 30_000 + (colors == "red") + rng.normal(0, 0.7, count) > 2.2, "yes", "no")
    rows = (",".join(map(str, row)) for row in zip(ages, incomes, colors, bought, strict=True))
    path.write_text("\n".join(["age,income,color,bought", *rows]) + "\n")


def close_logs() -> None:
    """Close the log files of earlier federations, of which there may be hundreds; one that is needed opens again."""
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("fedspd.site")]:
        log = logging.getLogger(name)
        for handler in list(log.handlers):
            handler.close()
            log.removeHandler(handler)


def ask(terms: Terms, round: int = 1, acknowledged: int = 0, weights: np.ndarray | float = 0.0, **changes: Any) -> Ask:
    """A request for a round of the schema above."""
    weights = np.broadcast_to(np.asarray(weights, np.float64), (6, 2)).copy()
    return Ask(terms.digest, round, acknowledged, weights, np.zeros(5), np.ones(5), 1.0)._replace(**changes)


def play(made: Federation, terms: Terms, place: int = 0, **changes: Any) -> messages.Reply:
    """Ask a site for a round and demand a reply."""
    answer = made.tell(place, ask(terms, **changes))
    assert isinstance(answer, messages.Reply), answer
    return answer


def measure(made: Federation, terms: Terms, place: int = 0) -> Any:
    return made.tell(place, Measure(terms.digest))
