"""Plans with the paper's calibration, whose epsilon is the paper's and not a theorem."""

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from fedspd.errors import InputError
from fedspd.privacy import paper
from fedspd.privacy.plans.base import WHOLE_SHARD
from fedspd.typing import Law


@dataclass(frozen=True, eq=False)
class PublishedPlan:
    """The paper's calibration: one epsilon per round for every client, Theorem 1 for the total.

    The guarantee is the paper's, not ours: client state stays un-noised between rounds, and
    Theorem 1 charges the expected number of participations (`docs/proofs/published.md`).
    """

    epsilon_per_round: float
    delta: float
    sampling: str
    drawn: int  # records a client draws in a round, Q b
    records: np.ndarray  # per client
    law: Law = "gaussian"  # else one round is epsilon-private, and epsilons of rounds add up

    relation = "replace-one"
    unit = "record"
    most_participations = None
    largest = ()  # no event stands for what is not proved

    @property
    def guarantee(self) -> str:
        """Never "proved"."""
        return "none" if self.epsilon_per_round == inf else "as published"

    @property
    def noise_multiplier(self) -> float:
        """The classic Gaussian formula; for pure privacy 1/epsilon."""
        if self.law != "gaussian":
            return 1 / self.epsilon_per_round
        return paper.classic_multiplier(self.epsilon_per_round, self.delta)

    def noise_scale(self, clients: np.ndarray, sensitivity: Any) -> Any:
        """The multiplier times the sensitivity; without a budget no noise, even where nothing bounds the query."""
        return 0.0 if self.guarantee == "none" else self.noise_multiplier * sensitivity

    def is_charged(self, participations: np.ndarray) -> np.ndarray:
        """Always."""
        return np.ones(len(participations), bool)

    def spent(self, clients: np.ndarray, participations: np.ndarray) -> np.ndarray:
        """Theorem 1 with the *realized* number of participations in place of p T."""
        # the loss of n participations is that of one times sqrt n, and of pure ones times n
        grown = np.asarray(participations, float) if self.law != "gaussian" else np.sqrt(participations)
        return np.multiply(self._of_one[clients], grown, where=grown > 0, out=np.zeros(len(grown)))

    @cached_property
    def _of_one(self) -> np.ndarray:
        return self.stated(self.records, np.ones(len(self.records)))

    def stated(self, records: Any, participations: Any) -> Any:
        """Theorem 1 for a client with this many records; without subsampling, what the paper charges DP-ADMM.

        Pure rounds add up.
        """
        if self.law != "gaussian":
            return self.epsilon_per_round * participations
        if self.sampling == WHOLE_SHARD:
            return paper.full_batch_total_epsilon(self.epsilon_per_round, participations)
        rate = paper.sampling_rate(self.sampling, self.drawn, records)
        return paper.total_epsilon(self.epsilon_per_round, rate, participations)


def plan_as_published(
    epsilon: float,
    budget: str,
    delta: float,
    sampling: str,
    drawn: int,
    records: np.ndarray,
    participations: float,
    law: Law = "gaussian",
) -> PublishedPlan:
    """Turn the paper's budget into its plan, at the average shard size (the paper's data has 32561/100).

    Args:
        epsilon: the budget.
        budget: "total" (solve Theorem 1 for one round's epsilon) or "round".
        delta: of one round and, as the paper has it, of the whole run.
        sampling: of records, with or without replacement, or the whole shard.
        drawn: Q b; of no use for the whole shard.
        records: per client.
        participations: expected per client, p T.
        law: of the noise; for pure rounds, not "gaussian", the total is the sum over rounds and delta is not used.
    """
    if budget == "total" and law != "gaussian":
        return PublishedPlan(epsilon / participations, delta, sampling, drawn, records, law)
    if budget == "total" and epsilon != inf and sampling == WHOLE_SHARD:
        epsilon = epsilon / float(paper.full_batch_total_epsilon(1.0, participations))
    elif budget == "total" and epsilon != inf:
        rate = paper.sampling_rate(sampling, drawn, float(np.mean(records)))
        if not rate < 1:
            raise InputError(
                f"Theorem 1 of the paper needs a sampling rate below 1, got {rate:.3g} "
                f"(local_steps x batch_size = {drawn} of {np.mean(records):g} records); lower batch_size or "
                'local_steps, or set privacy.budget = "round".'
            )
        epsilon = paper.epsilon_per_round(epsilon, rate, participations)
    return PublishedPlan(epsilon, delta, sampling, drawn, records, law)
