r"""The formulas of the FedSPD-DP paper (arXiv 2204.12284), as printed, with their equation names.

They are reproduced, not endorsed: `docs/proofs/published.md` says which of them do not hold and why.
Two printed slips have a reading fixed here: $(Q-1)^2$ becomes 1 when Q = 1 (the paper's own Q = 1
case of Theorem 2), and Lemma 1's $\sigma$ is a variance.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numpy as np

COMPOSITION_CONSTANT = 3.04
"""$c_0$ of Theorem 1: used by the paper's experiments, not derived there."""


@dataclass(frozen=True)
class PaperFormulas:
    """The public numbers that the paper's step size and noise depend on."""

    epsilon: float  # of one round
    delta: float
    penalty: float  # rho
    local_steps: int  # Q
    batch_size: int  # b
    dimension: int  # d
    participation: float  # p = K / N
    gradient_bound: float = 1.0  # G
    diameter: float = 1.0  # d_X
    dual_diameter: float = 1.0  # d_lambda
    gradient_deviation: float = 1.0  # phi

    @property
    def constant(self) -> float:
        r"""$C(Q,\epsilon)$ of Theorem 2.

        $G^2 + 2d_\lambda^2 + 2\phi^2/b + 16\rho d G^2\ln(1.25/\delta)/((Q-1)^2\epsilon^2)$.
        """
        repeats = max(self.local_steps - 1, 1)
        privacy = 16 * self.penalty * self.dimension * self.gradient_bound**2 * log(1.25 / self.delta)
        return (
            self.gradient_bound**2
            + 2 * self.dual_diameter**2
            + 2 * self.gradient_deviation**2 / self.batch_size
            + privacy / (repeats * self.epsilon) ** 2
        )

    def inverse_step(self, round: Any) -> Any:
        r"""$\gamma^t = \frac{2}{d_X}\sqrt{Q\,p\,C(Q,\epsilon)}\,\sqrt t$ (Theorem 2); t counts rounds from 1."""
        coefficient = 2 / self.diameter * sqrt(self.local_steps * self.participation * self.constant)
        return coefficient * round**0.5

    @property
    def noise_multiplier(self) -> float:
        r"""$\sqrt{2\ln(1.25/\delta)}/\epsilon$: noise over sensitivity by the classic formula (Lemma 1)."""
        return classic_multiplier(self.epsilon, self.delta)

    def noise_scale(self, round: Any) -> Any:
        r"""$\sigma_t$: the multiplier times the sensitivity of Lemma 2 (eq. "noise scale")."""
        return self.noise_multiplier * sensitivity(
            self.gradient_bound, self.local_steps, self.penalty, self.inverse_step(round)
        )

    def convergence_bound(self, rounds: int, clients: int, initial_gap: float, regularizer_bound: float) -> float:
        r"""Right-hand side of Theorem 2.

        Args:
            rounds: T.
            clients: N.
            initial_gap: $\sum_i\sup_\lambda [J_i(\text{start}) - J_i(\text{end})]$, measured on a run.
            regularizer_bound: $G_R$, a bound on every $R_i(x)$.
        """
        p, q = self.participation, self.local_steps
        geometry = (
            self.penalty * self.diameter**2 * (q + 1) + q * self.dual_diameter**2 / self.penalty + 4 * regularizer_bound
        ) / p
        dominating = 2 * self.diameter * sqrt(self.constant) / sqrt(rounds * q * p)
        return initial_gap / rounds + clients * geometry / (2 * rounds * q) + clients * dominating


def classic_multiplier(epsilon: float, delta: float) -> float:
    r"""$\sqrt{2\ln(1.25/\delta)}/\epsilon$ (Lemma 1); the paper uses it for every epsilon, it needs epsilon < 1."""
    return sqrt(2 * log(1.25 / delta)) / epsilon


def sensitivity(gradient_bound: float, local_steps: int, penalty: float, inverse_step: Any) -> Any:
    r"""$4G/(\rho+\gamma)$ for Q = 1, $\frac{4QG}{(Q-1)(\rho+\gamma)}$ for Q > 1 (Lemma 2; its proof fails)."""
    growth = local_steps / (local_steps - 1) if local_steps > 1 else 1.0
    return 4 * growth * gradient_bound / (penalty + inverse_step)


def sampling_rate(sampling: str, drawn: int, records: Any) -> Any:
    r"""$q_i$ of Theorem 1: $Qb/m_i$ without replacement, $1-(1-1/m_i)^{Qb}$ with replacement."""
    return drawn / records if sampling == "without-replacement" else 1 - (1 - 1 / records) ** drawn


def total_epsilon(epsilon: float, rate: Any, participations: Any) -> Any:
    r"""$\bar\epsilon = c_0\,q\,\epsilon\sqrt{n/(1-q)}$ (Theorem 1, which puts the expected number $n = pT$).

    It diverges at q = 1, a full pass over the shard; without any participation it is zero.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.sqrt(np.asarray(participations, float) / np.maximum(1 - rate, 0.0))
        return np.where(np.equal(participations, 0), 0.0, COMPOSITION_CONSTANT * rate * epsilon * growth)


def epsilon_per_round(total: float, rate: float, participations: float) -> float:
    r"""$\epsilon = \bar\epsilon\sqrt{1-q}/(c_0\,q\sqrt{n})$: Theorem 1 solved for one round's loss."""
    return total * sqrt(1 - rate) / (COMPOSITION_CONSTANT * rate * sqrt(participations))


def full_batch_total_epsilon(epsilon: float, participations: Any) -> Any:
    r"""$c_0\,\epsilon\sqrt n$: what the paper charges DP-ADMM, which has no subsampling."""
    return COMPOSITION_CONSTANT * epsilon * participations**0.5
