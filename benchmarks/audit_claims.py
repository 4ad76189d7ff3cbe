"""Which claims are attacked: every proved method with every unit, sampling and trust that it takes, and a few more.

Plans are those of real configurations on Adult, of persons on the visits, at a total epsilon of 4 with three releases
of a client.
"""

from functools import cache
from itertools import product
from typing import Any, NamedTuple

from fedspd import config as configuration
from fedspd.algorithms import METHODS
from fedspd.assemble.finished.audited import contests_of
from fedspd.audit.verdict import Contest
from fedspd.errors import InputError
from fedspd.studies.lineup import first_try

COMMON: dict[str, Any] = {"run.rounds": 3, "run.participants": 100, "run.seed": 0, "privacy.epsilon": 4.0}
BATCHES = {"algorithm.batch_size": 50, "algorithm.sampling": "without-replacement"}
POISSON = {"algorithm.batch_size": 50, "algorithm.sampling": "poisson"}
FEW = {"algorithm.batch_size": 10}  # of the fifty persons of a client
SUMS = {"privacy.trust": "secure-sums"}
UNITS: dict[str, dict[str, Any]] = {
    "records": {}, "persons": {"data.name": "visits", "privacy.unit": "person"}, "clients": {"privacy.unit": "client"},
}  # fmt: skip
SAMPLINGS: dict[str, dict[str, Any]] = {"whole": {}, "batches": BATCHES, "Poisson": POISSON}
TRUSTS: dict[str, dict[str, Any]] = {"uploads": {}, "sums": SUMS}
FIVE = {"algorithm.local_steps": 5}
VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's 5 steps of 10": {**BATCHES, **FEW, **FIVE},
    "5 steps by Poisson": {**POISSON, **FEW, **FIVE},
    "5 steps on the whole shard": FIVE,
    "no moments": {"data.scaling": "min-max"},
    "half of the budget for moments": {"data.moments_share": 0.5},
}
"""Of FedSPD-DP, what may differ beside unit, sampling and trust."""


class Kind(NamedTuple):
    """What a claim is about."""

    method: str
    unit: str
    sampling: str
    trust: str


def contests(settings: dict[str, Any]) -> list[Contest]:
    """Of a configuration of the proved preset."""
    changes = COMMON | settings
    method = METHODS[changes["algorithm.name"]]
    needed = {**first_try(method.name), **method.compared}
    changes = {**changes, **{key: value for key, value in needed.items() if key not in changes}}
    if method.needs.one_round:
        changes["run.rounds"] = 1
    return contests_of(configuration.load("proved", changes))


def settings_of(kind: Kind) -> dict[str, Any]:
    """The settings of a claim, whether the method takes them or not."""
    drawn = SAMPLINGS[kind.sampling]
    if kind.unit == "persons" and drawn:
        drawn = {**drawn, **FEW}
    return {"algorithm.name": kind.method, **UNITS[kind.unit], **drawn, **TRUSTS[kind.trust]}


@cache
def claims() -> dict[Kind, list[Contest]]:
    """All combinations that are not refused."""
    proved = [name for name, method in METHODS.items() if method.guarantee == "proved"]
    found = {}
    for kind in (Kind(*parts) for parts in product(proved, UNITS, SAMPLINGS, TRUSTS)):
        try:
            found[kind] = contests(settings_of(kind))
        except InputError:
            continue  # a claim that nobody makes
    return found


def variants() -> dict[str, list[Contest]]:
    """Settings of FedSPD-DP that make claims of other shapes."""
    return {name: contests({"algorithm.name": "fedspd", **settings}) for name, settings in VARIANTS.items()}
