"""Which records are trained on, which are measured on, and who holds which."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

from fedspd.config import Config
from fedspd.config.sections import Partition
from fedspd.data import Shards, Table, hold_out, split
from fedspd.engine import stream

PARTITION_OPTIONS = ("alpha", "at_least", "shards_per_client", "column", "exponent")


def measured_on(config: Config, train: Table, test: Table | None) -> tuple[Table, Table | None]:
    """What is trained on and what models are measured on."""
    return hold_out(train) if config.data.split == "validation" else (train, test)


def deal(config: Config, train: Table) -> Shards:
    """The training records, handed out to clients."""
    return _dealt(train, config.partition, deal_seed(config), config.problem.counts)


@lru_cache(maxsize=2)  # runs of a sweep that share a seed share the deal
def _dealt(train: Table, partition: Partition, seed: int, counts: Any) -> Shards:
    options = {key: getattr(partition, key) for key in PARTITION_OPTIONS}
    shards = split(
        train,
        partition.kind,
        partition.clients,
        stream(seed, "partition"),
        **{key: value for key, value in options.items() if value is not None},
    )
    return replace(shards, counts=counts)


def deal_seed(config: Config) -> int:
    """The seed that decides which client holds which record; 0 where nobody has to deal them."""
    return (config.run.seed or 0) if config.partition.seed is None else config.partition.seed
