"""Records that a run holds out, to measure its model on: which they are, and by whose key."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedspd.assemble.gate import SECRET
from fedspd.assemble.records.deal import deal_seed
from fedspd.config import Config
from fedspd.data import Shards, Table
from fedspd.data.holding.held_out import HeldOut, hold_out_by_key
from fedspd.errors import InputError
from fedspd.privacy import POISSON, ProvedPlan
from fedspd.results.evaluation import Evaluation
from fedspd.results.inference import Inference

if TYPE_CHECKING:  # a run without a ledger starts without SQLite
    from fedspd.privacy.ledger import Ledger


@dataclass(frozen=True, eq=False)
class Apart:
    """Records of all clients that are never trained on, with what pays for a look at them."""

    table: Table  # encoded, not scaled yet
    weights: np.ndarray  # of each record: those of a person add up to one
    units: int  # persons, or records
    places: np.ndarray  # of the plan: the client of each record, or its cohort
    names: tuple[tuple[str, ...], ...]  # on the ledger: of the client in each place, or of a cohort's members
    plan: ProvedPlan
    run: str  # as the ledger calls it
    digest: str  # keyed, of which records these are
    ledger: Path | None  # that the run was charged to
    made: list[Evaluation] = field(default_factory=list)  # measurements by this process
    inferred: list[Inference] = field(default_factory=list)  # and Newton steps

    def facts(self) -> dict[str, Any]:
        """What a run's folder says of the records it held out: enough to know them again, with the key."""
        return {"run": self.run, "units": self.units, "digest": self.digest}

    def require_unspent(self) -> None:
        """Refuse a second release where no ledger knows of the first one."""
        if self.ledger is None and (self.made or self.inferred):
            raise InputError(
                "a plan without a ledger pays for one measurement, got a second question; run it again with a ledger."
            )

    def pay(self, ledger: "Ledger", run: str, number: int, mechanism: str) -> None:
        """Charge every client for one release of what it held out, or nobody if one of them has no budget for it.

        Args:
            ledger: that is charged.
            run: what is measured, as the ledger calls it.
            number: of the release.
            mechanism: what it is called.
        """
        groups = self.plan.groups
        events: dict[str, Any] = {
            name: groups[self.plan.group[place]].evaluation for place, names in enumerate(self.names) for name in names
        }
        if len(ledger.affordable(events)) < len(events) or ledger.charge(run, number, mechanism, events).refused:
            raise InputError(
                f"every client must have budget left for a measurement, got some without, for {mechanism} {number}; "
                "read the one that was made, or give the ledger room for more before its first run (--ledger-epsilon)."
            )

    def __repr__(self) -> str:
        return f"{self.units} held out"


def check_relation(config: Config, persons: bool) -> None:
    """Refuse to hold out records by what neighbors do not share: the sides of all others must not depend on it.

    Args:
        config: with or without a share to hold out.
        persons: whether the table names them.
    """
    share, unit = config.evaluation.held_out, config.privacy.unit
    if share is None or unit == "client":
        return
    if unit == "record" and persons:
        raise InputError(
            f"records of one person must not be trained on and held out at once, got evaluation.held_out = {share:g} "
            "with privacy.unit = record and a schema that names persons; set privacy.unit = person."
        )
    work = config.algorithm.work
    if unit == "record" and work.batch_size is not None and work.sampling == POISSON:
        raise InputError(
            "which records are held out follows from what they hold, so an empty record in the place of one may send "
            f"another to the other side, which zero-out neighbors do not cover, got evaluation.held_out = {share:g} "
            "with algorithm.sampling = poisson; sample without-replacement, or protect persons (privacy.unit = person)."
        )


def set_apart(
    config: Config, table: Table, scaled: Table, dealt: Shards, ledger: "Ledger | None"
) -> tuple[Shards, HeldOut]:
    """What is trained on, and what is held out.

    Args:
        config: with a share to hold out.
        table: the encoded records that were dealt.
        scaled: the same ones, as they were dealt.
        dealt: to whom.
        ledger: whose key decides; None: in a simulation without one, the seed of the deal does.
    """
    share = config.evaluation.held_out
    assert share is not None, "somebody asked for it"
    if config.seed >= SECRET and config.partition.kind != "own" and config.partition.seed is None and ledger:
        raise InputError(
            "records that are held out must be found again later, got a deal by a seed that is kept nowhere; set "
            "partition.seed, or name the client of each record."
        )
    if ledger is None:
        return hold_out_by_key(table, dealt, share, seed_key(deal_seed(config)), scaled)
    from fedspd.privacy.ledger.key import held_out_key

    return hold_out_by_key(table, dealt, share, held_out_key(ledger), scaled)


def seed_key(seed: int | None) -> bytes:
    """A key that follows from a seed, where nothing is protected by it."""
    return hashlib.blake2b(f"held-out {seed}".encode(), digest_size=32).digest()


def places_in_plan(owners: np.ndarray, members: tuple[np.ndarray, ...] | None) -> np.ndarray:
    """The client of each record, or its cohort where those stand in the plan."""
    if members is None:
        return owners
    cohort = np.empty(sum(map(len, members)), np.int64)
    for place, each in enumerate(members):
        cohort[each] = place
    return cohort[owners]
