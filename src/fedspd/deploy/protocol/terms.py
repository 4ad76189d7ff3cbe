"""The terms of a run: public numbers from which the server and every site derive the same method and the same plan."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fedspd import __version__
from fedspd.algorithms import METHODS
from fedspd.assemble import Agreed, agree
from fedspd.assemble.cohorts import Cohorts
from fedspd.config import Config, parse
from fedspd.config.sections import DEFAULT_METHOD
from fedspd.data import Holdings, Schema
from fedspd.data.holding.held_out import held_out_sizes
from fedspd.deploy.protocol.counts import check_counts
from fedspd.deploy.protocol.identity import NAME as SITE_NAME
from fedspd.deploy.protocol.sums import SHARED, check_shared, check_whole, for_members
from fedspd.engine.batches import check_batches, member_batches, nominal_sizes
from fedspd.engine.simulation import check_claims
from fedspd.errors import InputError
from fedspd.privacy import SharedNoise
from fedspd.target import Classes

PLAIN, SECURE = "plain", "secure"
MOST_RECORDS = 10**9  # of a site; step sizes and noise are computed from it
MOST_SITES = 10**5
DIGEST = re.compile(r"[0-9a-f]{16,64}")  # of a schema
NAME = re.compile(r"[A-Za-z0-9._-]{1,80}")  # of a run: it stands in logs and ledgers
COMMON = (
    "run", "sizes", "schema", "aggregation", "draws", "largest_weight", "members", "threshold", "colluders", "cohorts",
    "bins", "subgroup",
)  # with the settings  # fmt: skip


@dataclass(frozen=True)
class Terms:
    """What a site agrees to before the first round; a round under other terms is another run."""

    run: str  # names the run in ledgers
    config: Config
    sizes: tuple[int, ...]  # records of every site
    place: int  # of this site among them
    schema: str  # its digest
    aggregation: str
    draws: int | None = None  # a seed that fixes all draws, for tests of unprotected sites
    largest_weight: float = 1000.0  # that the server will ever send
    members: tuple[str, ...] = ()  # names of all sites in the order of their places, for secure aggregation only
    threshold: int = 0  # fewest sites in a masked sum, as every site's own file has it; 0: nothing is masked
    colluders: int = 0  # most sites that may side with the server, likewise
    cohorts: tuple[int, ...] = ()  # of each site, by place, where it is summed, likewise; empty: all in the first
    bins: int = 0  # of scores, that held-out records are counted by after the last round; 0: none are held out
    subgroup: str = ""  # a declared column by whose levels they are counted too

    @cached_property
    def text(self) -> str:
        """The terms as they travel; `read_terms` is its inverse."""
        return self._text_of("place", *COMMON)

    def _text_of(self, *names: str) -> str:
        values = {name: getattr(self, name) for name in names}
        return json.dumps(values | {"config": self.config.to_dict()}, sort_keys=True)

    @property
    def digest(self) -> str:
        """What later messages name the terms by."""
        return digest_of(self.text)

    @cached_property
    def common(self) -> str:
        """A digest of what all sites have in common: the terms but the place, and the program that derives noise."""
        return hashlib.sha256(f"{__version__} {self._text_of(*COMMON)}".encode()).hexdigest()

    @property
    def holdings(self) -> Holdings:
        """Records that every site trains on."""
        return Holdings(self.trained, self.config.problem.counts)  # pyright: ignore[reportArgumentType]

    @cached_property
    def held_out(self) -> np.ndarray:
        """Records of every site that are never trained on."""
        return held_out_sizes(np.array(self.sizes), self.config.evaluation.held_out or 0.0)

    @cached_property
    def trained(self) -> np.ndarray:
        """All others."""
        return np.array(self.sizes) - self.held_out

    @property
    def unit(self) -> Any:
        """What is protected, and so what sizes count."""
        return self.config.privacy.unit

    @property
    def shares_noise(self) -> bool:
        """Whether the sites of each cohort share the noise of its sums, which are all that is seen of them."""
        return self.config.privacy.trust == SHARED

    @property
    def summed(self) -> Holdings:
        """Records behind every release that the server sees: of each site, or of a cohort together."""
        pooled = np.array([self.trained[places].sum() for places in self.in_cohorts])
        return replace(self.holdings, sizes=pooled) if self.shares_noise else self.holdings

    @cached_property
    def cohort(self) -> np.ndarray:
        """Of each site its cohort, from 0: numbers of which no site is in the run are skipped."""
        return np.unique(self.cohorts, return_inverse=True)[1] if self.cohorts else np.zeros(len(self.sizes), int)

    @cached_property
    def in_cohorts(self) -> list[np.ndarray]:
        """The places of each cohort."""
        order = np.argsort(self.cohort, kind="stable")  # a server may name very many
        return np.split(order, np.cumsum(np.bincount(self.cohort))[:-1])

    @property
    def beside(self) -> np.ndarray:
        """The places of this site's cohort: nobody else's part is in a sum with its own."""
        return self.in_cohorts[self.cohort[self.place]]

    def agreed(self, schema: Schema) -> Agreed[Any]:
        """Method and plan, checked."""
        data, algorithm = self.config.data, self.config.algorithm
        if algorithm.name not in deployed_methods():
            raise InputError(
                "a deployed run needs a method whose server sends weights alone and whose clients release once a round "
                f"with noise that can be drawn exactly, got {algorithm.name!r}; use one of "
                f"{', '.join(deployed_methods())}, or simulate."
            )
        if not isinstance(schema.target, Classes):
            raise InputError(
                f"a deployed run predicts classes, got {schema.target.column!r}, which is a "
                f"{type(schema.target).__name__.lower()}; declare its classes in the schema, or simulate."
            )
        if data.row_norm is None or data.scaling not in ("noisy-moments", "min-max"):
            raise InputError(
                "a deployed run needs data.row_norm and data.scaling = noisy-moments or min-max, got "
                f"{data.row_norm} and {data.scaling!r}; set them."
            )
        check_counts(self, schema)
        if self.shares_noise:
            self._check_shared()
        if not 0 <= data.bias < data.row_norm:
            raise InputError(
                f"data.bias must be at least 0 and below data.row_norm = {data.row_norm:g}, got {data.bias:g}; "
                "lower it."
            )
        agreed = agree(self.config, self.holdings, columns_of(schema, self.config), schema.target, self._grouped())
        check_claims(agreed.algorithm, agreed.plan)
        if self.shares_noise:
            return for_members(self, agreed, schema)
        check_batches(self.holdings, agreed.plan.sampling, algorithm.work.batch_size, agreed.algorithm.local_steps)
        return agreed

    def _check_shared(self) -> None:
        """Refuse terms that leave open, or say otherwise, who must be in a sum."""
        privacy = self.config.privacy
        check_shared(self.aggregation, privacy, self.threshold, self.colluders)
        check_whole(self.unit, self.sizes)
        told = len(self.in_cohorts), self.threshold, self.colluders
        if (privacy.cohorts, privacy.threshold, privacy.colluders) != told:
            raise InputError("expected terms that fit together, got others; update both sides.")

    def _grouped(self) -> Cohorts | None:
        """Who shares noise with whom."""
        if not self.shares_noise:
            return None
        largest = max(map(len, self.in_cohorts))
        return Cohorts(tuple(self.in_cohorts), SharedNoise(largest, self.threshold, self.colluders))

    @property
    def base_name(self) -> str:
        """The run's name without the number of the proposal: sites that refuse make a server propose anew."""
        return base_name(self.run)

    @cached_property
    def drawn(self) -> np.ndarray:
        """Records that each site of a cohort takes in a round, on average."""
        batch_size = self.config.algorithm.work.batch_size
        return self.trained if batch_size is None else member_batches(self.trained, batch_size)

    def batch(self, agreed: Agreed[Any]) -> np.ndarray:
        """What this site divides a batch's sum by: where sites share noise, what those of a cohort take on average."""
        if self.shares_noise:
            return np.array([float(self.drawn.sum()) / len(self.in_cohorts)])
        return nominal_sizes(
            self.holdings, np.array([self.place]), self.config.algorithm.work.batch_size, agreed.algorithm.local_steps
        )


def deployed_methods() -> list[str]:
    """Names of the methods that run between real sites: the package's own, since nobody vouches for others."""
    return [method.name for method in METHODS.built_in.values() if method.deploys]


def base_name(run: str) -> str:
    """A run's name without the number of the proposal."""
    return run.rpartition(".")[0] or run


def columns_of(schema: Schema, config: Config) -> int:
    """Number of features, a bias included."""
    return len(schema.columns) + bool(config.data.bias)


NOT_HERE = {
    "partition": "each site has its own records",
    "metrics": "they need the records of all",
    "run.engine": "each site computes by itself",
    "run.most_stale": "who is asked is drawn among the sites that may still take part",
    "run.absence": "sites are away by themselves",
    **{f"data.{key}": "the schema says it" for key in ("name", "columns", "log_capital", "encode", "split")},
}
"""Settings of a simulation, and why a deployed run has none of them."""


def settings_between_sites(config: Config) -> dict[str, dict[str, Any]]:
    """The settings that a deployed run has, by section."""
    return {
        section: {key: value for key, value in keys.items() if f"{section}.{key}" not in NOT_HERE}
        for section, keys in config.to_dict().items()
        if section not in NOT_HERE
    }


def digest_of(text: str) -> str:
    """A short name of a text."""
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def read_terms(text: str) -> Terms:
    """Terms as a server sent them; refuses what does not fit together."""
    try:
        values = json.loads(text)
        config = _read_settings(values.pop("config"))
        sizes = tuple(int(size) for size in values.pop("sizes"))
        members, cohorts = values.pop("members"), values.pop("cohorts")
        terms = Terms(config=config, sizes=sizes, members=tuple(members), cohorts=tuple(cohorts), **values)
        fits = NAME.fullmatch(terms.run) and 0 <= terms.place < len(sizes) == config.partition.clients <= MOST_SITES
        fits = fits and type(terms.place) is int and all(1 <= size <= MOST_RECORDS for size in sizes)
        fits = fits and 0 < float(terms.largest_weight) < np.inf and type(members) is list and _named(terms)
        fits = fits and _grouped(terms) and type(terms.bins) is int and type(terms.subgroup) is str
        fits = fits and DIGEST.fullmatch(terms.schema)
    except InputError:  # of a setting: says which
        raise
    except (ValueError, TypeError, AttributeError, KeyError):
        raise InputError("expected the terms of a run, got another text; update both sides.") from None
    if not fits or terms.aggregation not in (PLAIN, SECURE) or not isinstance(terms.draws, int | None):
        raise InputError("expected terms that fit together, got others; update both sides.")
    return terms


def _read_settings(values: Any) -> Config:
    """The settings of the terms. Whose methods are installed here besides the package's own, no refusal tells."""
    table = values.get("algorithm", {})
    if isinstance(table, Mapping):
        name = table.get("name", DEFAULT_METHOD)
        if name not in METHODS.built_in:
            raise InputError(
                f"algorithm.name must be one of {', '.join(deployed_methods())}, got {name!r}; update both sides."
            )
        for key in table:
            if key not in METHODS[name].keys | {"name"}:
                raise InputError(f"algorithm.{key} must be a setting of {name}, got another; update both sides.")
    return parse(values)


def _named(terms: Terms) -> bool:
    """Whether the sites of a masked run have names and a threshold, and no other run's have."""
    names, numbers = terms.members, (terms.threshold, terms.colluders)
    if terms.aggregation != SECURE:
        return not names and not any(numbers)
    named = len(set(names)) == len(names) == len(terms.sizes) and all(map(SITE_NAME.fullmatch, names))
    return named and all(type(number) is int and number >= 0 for number in numbers)


def _grouped(terms: Terms) -> bool:
    """Whether cohorts, where sites share noise by several, are those of all places; one may be left out of a run."""
    found = terms.cohorts
    if not found:
        return True
    numbered = terms.shares_noise and all(type(number) is int for number in found)
    if not numbered or len(found) != len(terms.sizes):
        return False
    return 1 <= min(found) <= max(found) <= MOST_SITES and max(found) > 1
