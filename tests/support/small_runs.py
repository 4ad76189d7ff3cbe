"""A small run of any method, by what the method itself says that it needs."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from fedspd.algorithms import METHODS, Method
from fedspd.config import Config, load

SMALL: dict[str, Any] = {
    "partition.clients": 10, "run.participants": 5, "run.rounds": 3, "metrics.criterion": False,
    "metrics.objective_every": 10**6,
}  # fmt: skip


def small_run(name: str, **changes: Any) -> Config:
    """Three rounds of ten clients; `run__seed=1` changes run.seed."""
    method = METHODS[name]
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    preset = "proved" if method.guarantee == "proved" else "published"
    usual = {"problem.strength": 0.001} if preset == "proved" else {}  # a tenth of what is usual for a sum over ten
    usual |= {"data.encode": "declared"}  # the same columns for every method
    return load(preset, {**SMALL, **asked_for(method), "algorithm.name": name, **dotted}, usual)


def asked_for(method: Method) -> Mapping[str, Any]:
    """What a method cannot do without, as its grid and the leaderboard have it."""
    needed = {f"algorithm.{key.name}" for key in fields(method.settings) if "needed" in key.metadata}
    points = {**method.compared, **method.grid[len(method.grid) // 2]}
    chosen = {key: value for key, value in points.items() if key in needed or not key.startswith("algorithm.")}
    return {**chosen, **({"run.participants": SMALL["partition.clients"]} if method.needs.everybody else {})}
