"""The terms of a run: public numbers from which the server and every site derive the same method and the same plan."""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedspd.algorithms import METHODS
from fedspd.config import Config, parse
from fedspd.data import Holdings, Schema
from fedspd.engine.batches import check_batches, nominal_sizes
from fedspd.engine.simulation import check_claims
from fedspd.errors import InputError
from fedspd.experiment import Agreed, agree

PLAIN, SECURE = "plain", "secure"
NAME = re.compile(r"[A-Za-z0-9._-]{1,80}")  # of a run: it stands in logs and ledgers


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

    @cached_property
    def text(self) -> str:
        """The terms as they travel; `read_terms` is its inverse."""
        values = {name: getattr(self, name) for name in ("run", "sizes", "place", "schema", "aggregation", "draws")}
        return json.dumps(values | {"config": self.config.to_dict()}, sort_keys=True)

    @property
    def digest(self) -> str:
        """What later messages name the terms by."""
        return digest_of(self.text)

    @property
    def holdings(self) -> Holdings:
        """Records of every site."""
        return Holdings(np.array(self.sizes), self.config.problem.counts)  # pyright: ignore[reportArgumentType]

    def agreed(self, schema: Schema) -> Agreed[Any]:
        """Method and plan, checked."""
        data, algorithm = self.config.data, self.config.algorithm
        if not METHODS[algorithm.name].deploys:
            able = ", ".join(name for name, method in METHODS.items() if method.deploys)
            raise InputError(
                "a deployed run needs a method whose server sends weights alone and whose clients release once a round "
                f"with noise that can be drawn exactly, got {algorithm.name!r}; use one of {able}, or simulate."
            )
        if data.row_norm is None or data.scaling not in ("noisy-moments", "min-max"):
            raise InputError(
                "a deployed run needs data.row_norm and data.scaling = noisy-moments or min-max, got "
                f"{data.row_norm} and {data.scaling!r}; set them."
            )
        agreed = agree(self.config, self.holdings, columns_of(schema, self.config), len(schema.classes))
        check_batches(self.holdings, agreed.plan.sampling, algorithm.batch_size, agreed.algorithm.local_steps)
        check_claims(agreed.algorithm, agreed.plan)
        return agreed

    def batch(self, agreed: Agreed[Any]) -> np.ndarray:
        """What this site divides a batch's sum by."""
        return nominal_sizes(
            self.holdings, np.array([self.place]), self.config.algorithm.batch_size, agreed.algorithm.local_steps
        )


def columns_of(schema: Schema, config: Config) -> int:
    """Number of features, a bias included."""
    return len(schema.columns) + bool(config.data.bias)


def digest_of(text: str) -> str:
    """A short name of a text."""
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def read_terms(text: str) -> Terms:
    """Terms as a server sent them; refuses what does not fit together."""
    try:
        values = json.loads(text)
        config = parse(values.pop("config"))
        sizes = tuple(int(size) for size in values.pop("sizes"))
        terms = Terms(config=config, sizes=sizes, **values)
        fits = NAME.fullmatch(terms.run) and 0 <= terms.place < len(sizes) == config.partition.clients
    except InputError:  # of a setting: says which
        raise
    except (ValueError, TypeError, AttributeError, KeyError):
        raise InputError("expected the terms of a run, got another text; update both sides.") from None
    if not fits or terms.aggregation not in (PLAIN, SECURE) or not isinstance(terms.draws, int | None):
        raise InputError("expected terms that fit together, got others; update both sides.")
    return terms
