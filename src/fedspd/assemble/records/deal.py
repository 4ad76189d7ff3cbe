"""Which records are trained on, which are measured on, and who holds which."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from fedspd.config import Config
from fedspd.config.sections import Partition
from fedspd.data import Shards, Table, hold_out, split
from fedspd.data.dataset import CLIENT
from fedspd.data.features.scaling import LARGE
from fedspd.engine import stream

PARTITION_OPTIONS = ("alpha", "at_least", "shards_per_client", "column", "exponent")


def measured_on(config: Config, train: Table, test: Table | None) -> tuple[Table, Table | None]:
    """What is trained on and what models are measured on."""
    return hold_out(train) if config.data.split == "validation" else (train, test)


def deal(config: Config, train: Table) -> Shards:
    """The training records, handed out to clients."""
    dealt = _dealt if train.features.nbytes > LARGE else _remembered
    return dealt(train, config.partition, deal_seed(config), config.problem.counts, config.privacy.unit)


def counted(config: Config, train: Table) -> int:
    """How many records there are to protect, or persons: one with rows at two clients of their own counts twice."""
    if config.privacy.unit == "client":
        return config.partition.clients
    if config.privacy.unit == "record" or train.persons is None:
        return len(train)
    persons = train.persons.codes.astype(np.int64)
    if config.partition.kind == "own":
        persons = persons + len(train.persons.levels) * train.attributes[CLIENT].codes
    return len(np.unique(persons))


def _dealt(train: Table, partition: Partition, seed: int, counts: Any, unit: Any) -> Shards:
    options = {key: getattr(partition, key) for key in PARTITION_OPTIONS}
    shards = split(
        train,
        partition.kind,
        partition.clients,
        stream(seed, "partition"),
        unit,
        **{key: value for key, value in options.items() if value is not None},
    )
    return replace(shards, counts=counts)


_remembered = lru_cache(maxsize=2)(_dealt)
"""Runs of a sweep that share a seed share the deal."""


def deal_seed(config: Config) -> int:
    """The seed that decides which client holds which record; 0 where nobody has to deal them."""
    return (config.run.seed or 0) if config.partition.seed is None else config.partition.seed
