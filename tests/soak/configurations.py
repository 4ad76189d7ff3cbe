"""What a soak runs: settings drawn at random, most of which some method takes."""

import random
from typing import Any

from fedspd.algorithms import METHODS
from fedspd.config import Config, load
from fedspd.errors import InputError
from tests.support.small_runs import asked_for

DATA = ("breast-cancer", "breast-cancer", "digits", "diabetes", "visits")
SAMPLING = ("without-replacement", "with-replacement", "poisson")


def drawn_settings(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A preset, and settings in place of its own."""
    method = METHODS[rng.choice(list(METHODS))]
    preset = "proved" if method.guarantee == "proved" else "published"
    clients = rng.choice([1, 2, 5, 8, 13])
    chosen: dict[str, Any] = {
        **asked_for(method), "algorithm.name": method.name, "data.name": rng.choice(DATA), "partition.clients": clients,
        "run.participants": clients if method.needs.everybody or rng.random() < 0.4 else rng.randint(1, clients),
        "run.seed": rng.randrange(1000), "privacy.epsilon": round(10 ** rng.uniform(-1.3, 1.0), 3),
        "metrics.criterion": False, "metrics.lagrangian": rng.random() < 0.5,
        "metrics.objective_every": rng.choice([0, 1, 3]),
    }  # fmt: skip
    if method.guarantee == "none":
        del chosen["privacy.epsilon"]  # would have no effect
    if method.name != "one-shot":
        chosen["run.rounds"] = rng.randint(1, 6)
    for more in _options(rng):
        if _is_taken(preset, chosen | more):
            chosen |= more
    return preset, chosen


def _options(rng: random.Random) -> list[dict[str, Any]]:
    """What may be asked for besides; most methods take some of it."""
    offered = (
        (0.3, {"data.scaling": "min-max"}), (0.3, {"data.bias": 0.5}), (0.2, {"problem.counts": "equal"}),
        (0.3, {"run.min_participants": 1}), (0.1, {"run.selection": "fixed"}), (0.1, {"run.most_stale": 13}),
        (0.35, {"privacy.trust": "secure-sums"}), (0.15, {"privacy.unit": "person"}),
        (0.25, {"privacy.trust": "secure-sums", "privacy.unit": "client"}),
        (0.4, {"privacy.cohorts": rng.choice([1, 2, 3])}), (0.4, {"run.absence": 0.2}),
        (0.3, {"privacy.colluders": rng.choice([0, 1])}),
        (0.3, {"algorithm.local_steps": rng.choice([2, 3])}), (0.25, {"evaluation.held_out": 0.2}),
        (0.2, {"data.encode": "auto"}), (0.3, {"metrics.spent_every_round": False}),
        (0.4, {"algorithm.batch_size": rng.choice([1, 4, 7]), "algorithm.sampling": rng.choice(SAMPLING)}),
        (0.7, _deal(rng)),
    )  # fmt: skip
    return [more for share, more in offered if rng.random() < share]


def _is_taken(preset: str, chosen: dict[str, Any]) -> bool:
    try:
        load(preset, chosen)
    except InputError:
        return False
    return True


def _deal(rng: random.Random) -> dict[str, Any]:
    return rng.choice(
        [
            {},
            {"partition.kind": "dirichlet", "partition.alpha": 0.5, "partition.at_least": 4},
            {"partition.kind": "label-shards", "partition.shards_per_client": 2},
            {"partition.kind": "power-law", "partition.exponent": 1.2},
        ]
    )


def read(preset: str, chosen: dict[str, Any]) -> Config:
    """The configuration that they mean."""
    return load(preset, chosen)
