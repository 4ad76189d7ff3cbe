"""Runs that differ in their seed and in numbers: found among many, and prepared in lots that fit into memory."""

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any

from fedspd.assemble.build import Experiment, of_seed, prepare_experiment, shared_by_seeds
from fedspd.assemble.records.deal import deal_seed
from fedspd.assemble.records.scaling import Memory, memory
from fedspd.config import Config

Numbered = Sequence[tuple[int, Config]]
TABLES = 2 << 30  # bytes of records prepared together
LOT = 1024  # runs prepared together
_REMEMBERED = 4096  # forms of sections


def alike(numbered: Numbered) -> list[list[tuple[int, Config]]]:
    """Runs that are probably of one shape; equal deals side by side."""
    groups: dict[Any, list[tuple[int, Config]]] = {}
    for number, config in numbered:
        form = tuple([_form(section) for section in vars(config).values()])
        groups.setdefault(form, []).append((number, config))
    return [sorted(group, key=lambda one: (deal_seed(one[1]), one[1].privacy.epsilon)) for group in groups.values()]


@lru_cache(maxsize=_REMEMBERED, typed=True)  # 1.0 equals True, and may differ where that may not
def _form(part: Any) -> Any:
    """A section without its seed and its numbers."""
    if is_dataclass(part):
        return type(part), tuple((key, None if key == "seed" else _form(value)) for key, value in vars(part).items())
    return None if isinstance(part, float) else part


def lots(group: Numbered) -> Iterator[list[tuple[int, Experiment]]]:
    """Prepared runs; tables that several share count once."""
    known, first_of = memory(), dict[Any, Experiment]()
    lot, tables = list[tuple[int, Experiment]](), dict[int, int]()
    for number, config in group:
        experiment = _prepared(config, known, first_of)
        shards = experiment.simulation.shards
        tables[id(shards)] = shards.features.nbytes
        if lot and (len(lot) == LOT or sum(tables.values()) > TABLES):
            yield lot
            lot, tables = [], {id(shards): shards.features.nbytes}
            first_of = {key: one for key, one in first_of.items() if one.simulation.shards is shards}
        lot.append((number, experiment))
    if lot:
        yield lot


def _prepared(config: Config, known: Memory, first_of: dict[Any, Experiment]) -> Experiment:
    """As `prepare_experiment`, which is asked once for all seeds where their records are the same."""
    if not shared_by_seeds(config):
        return prepare_experiment(config, known=known)
    run = [value for name, value in vars(config.run).items() if name != "seed"]
    but_for_the_seed = *[section for section in vars(config).values() if section is not config.run], *run
    found = first_of.get(but_for_the_seed)
    if found is None:
        found = first_of[but_for_the_seed] = prepare_experiment(config, known=known)
        return found
    return of_seed(found, config)
