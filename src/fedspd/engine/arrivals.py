"""Members of cohorts whose part of a sum does not arrive. Chance decides it, never a record."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedspd.engine import draws
from fedspd.engine.batches import draw_of_members, stacked
from fedspd.privacy import SharedNoise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedspd.engine.participation import RoundPlan
    from fedspd.engine.simulation import Simulation


@dataclass(frozen=True, eq=False)
class Members:
    """Who stands behind the cohorts of a run."""

    records: tuple[np.ndarray, ...]  # of each member, cohort by cohort, in the order of its rows
    sharing: SharedNoise
    absence: float = 0.0  # chance that a member's part does not arrive in a round
    batches: tuple[np.ndarray, ...] | None = None  # records that each draws in a round; None: all

    @cached_property
    def counts(self) -> np.ndarray:
        """Members of each cohort."""
        return np.array([len(each) for each in self.records])

    @property
    def drawn(self) -> tuple[np.ndarray, ...]:
        """Records that each member takes in a round, on average."""
        return self.batches or self.records

    @cached_property
    def divisor(self) -> float:
        """What the sum of every cohort is divided by: the mean of what all take, so that every record counts alike."""
        return float(np.mean([each.sum() for each in self.drawn]))

    def draw(self, rng: draws.Source, chosen: np.ndarray, sampling: str) -> np.ndarray:
        """The records of a round, of members that take batches."""
        assert self.batches is not None
        found = [draw_of_members(rng, self.records[each], self.batches[each], sampling) for each in chosen.tolist()]
        return stacked(found)


class Arrived(NamedTuple):
    """What of a round has arrived: cohorts below their threshold are not among it, though they were charged."""

    chosen: np.ndarray
    divisors: np.ndarray  # what each divides the sum of its records' gradients by
    louder: np.ndarray  # noise over that of a cohort of which everybody has arrived
    came: tuple[np.ndarray, ...] = ()  # of each cohort, which of its members; nothing where all did
    rows: tuple[np.ndarray, ...] | None = None  # and which of its records; None: all

    def of(self, records: np.ndarray) -> np.ndarray:
        """The records that were drawn, without those that have not arrived."""
        if self.rows is None:
            return records
        kept = [np.where(own[row], row, draws.NOBODY) for own, row in zip(self.rows, records, strict=True)]
        return np.stack(kept)


def arrivals(simulation: "Simulation", turns: "Sequence[RoundPlan]") -> list[Arrived] | None:
    """Of all rounds; None where everybody's part always arrives."""
    members = simulation.members
    return None if members is None or members.absence == 0 else [arrive(simulation, turn) for turn in turns]


def arrive(simulation: "Simulation", turn: "RoundPlan") -> Arrived:
    """Which cohorts are summed up, and which of their records.

    A mean over what arrived stands for the whole cohort: it is divided by so much less as records are missing.
    """
    members, chosen = simulation.members, turn.chosen
    if members is None or members.absence == 0:
        return Arrived(chosen, simulation.batch_sizes(chosen), np.ones(len(chosen)))
    rng = draws.stream(simulation.seed, "arrivals", turn.round)
    found = {cohort: rng.random(int(members.counts[cohort])) >= members.absence for cohort in chosen.tolist()}
    chosen = np.array([cohort for cohort in found if found[cohort].sum() >= members.sharing.threshold], chosen.dtype)
    came = tuple(found[cohort] for cohort in chosen.tolist())
    rows = tuple(np.repeat(found[cohort], members.records[cohort]) for cohort in chosen.tolist())
    shares = np.array([members.drawn[one] @ found[one] / members.drawn[one].sum() for one in chosen.tolist()])
    louder = np.sqrt([each.mean() for each in came])
    return Arrived(chosen, simulation.batch_sizes(chosen) * shares, louder, came, rows)
