"""Who may still take part, and what each client has spent: decided on public counts, before records are touched."""

from copy import copy
from typing import Protocol

import numpy as np

from fedspd.privacy import Plan


class Gate(Protocol):
    """A durable ledger, as the engine sees it."""

    def charge(self, round: int, clients: np.ndarray) -> np.ndarray:
        """Write one participation for each client that has budget for it; True where it was written.

        Returns only when the rows are durable: what is released afterwards has been paid for.
        """
        ...


class Spending:
    """Counts and epsilons of all clients, kept up to date for participants only (Remark 5 of the paper, enforced)."""

    def __init__(self, plan: Plan, clients: int, gate: Gate | None, every_round: bool = True) -> None:
        self.plan, self.gate, self.every_round = plan, gate, every_round
        self.participations = np.zeros(clients, np.int64)
        self.last = np.zeros(clients, np.int64)  # round that each client took part in last
        self.may_take_part = np.ones(clients, bool)
        self.with_budget = clients
        self.epsilon = plan.spent(np.arange(clients), self.participations)
        self.largest, self.total = float(self.epsilon.max()), float(self.epsilon.sum())

    def again(self) -> "Spending":
        """The same for another run on the same plan, which has spent as much."""
        other = copy(self)
        for name in ("participations", "last", "may_take_part", "epsilon"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def charge(self, round: int, chosen: np.ndarray) -> np.ndarray:
        """The clients among `chosen` whose participation is paid for; the others never come back."""
        if self.gate is not None:
            granted = np.ones(len(chosen), bool)
            charged = self.plan.is_charged(self.participations[chosen])
            granted[charged] = self.gate.charge(round, chosen[charged])
            self._retire(chosen[~granted])
            chosen = chosen[granted]
        self.participations[chosen] += 1
        self.last[chosen] = round
        if self.plan.most_participations is not None:
            self._retire(chosen[self.participations[chosen] >= self.plan.most_participations[chosen]])
        if self.every_round:
            self._update(chosen)
        return chosen

    def close(self) -> None:
        """Evaluate what all clients have spent, where that was put off."""
        if not self.every_round:
            self._update(np.arange(len(self.epsilon)))

    def _update(self, chosen: np.ndarray) -> None:
        spent, before = self.plan.spent(chosen, self.participations[chosen]), self.epsilon[chosen]
        # a client without a bound stays at infinity, which cannot be subtracted from itself
        self.total += float(np.subtract(spent, before, where=spent != before, out=np.zeros_like(spent)).sum())
        self.epsilon[chosen] = spent
        self.largest = max(self.largest, float(spent.max(initial=0.0)))

    def _retire(self, clients: np.ndarray) -> None:
        self.may_take_part[clients] = False
        self.with_budget -= len(clients)
