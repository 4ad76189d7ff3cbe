r"""What a server believes of a reply. A reply that fails changes nothing, and nobody is retired for one.

Limits come from public numbers alone, never from what sites sent before: a limit that grows with the model would let
one site push it up round by round. Let $M_i = Q s_i b_i + 2\sigma_i\sqrt d$ be what a participation can move a site
by: Q steps of the reach $s_i b_i = 2G/(\gamma+\rho)$ of a clipped gradient and its dual, and noise of twice its norm.
For FedSPD-DP the dual is a convex combination of released gradients, so with $\delta = \tilde x_i - x_0$, $\|\delta\|
\le M_i$, an upload is $2\delta + (x_0 - x_0') - \delta'$: at most $4 M$ for each of the n rounds it gathers, and
all of it longer by the most that uploads may be stretched. Believed
is $2\,(2\,t\,M + n M_i)$ in round t. Where three or more answer, one beyond $5\,n_i M_i \max(1, m)$ is rejected below
that, with the median m of $\|u_j\|/(n_j M_j)$: no honest upload is, whatever its records are.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fedspd.algorithms.base import StretchesSteps
from fedspd.assemble import Agreed
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.server.checkpoint import Member
from fedspd.privacy import ProvedPlan

GENEROUS = 2.0  # beyond the bound, which holds for every honest reply but for noise of twice its norm
OUTLYING = 5.0
FEWEST_TO_COMPARE = 3


class Limit(NamedTuple):
    """What is believed of a site's upload in a round."""

    norm: float  # the largest
    reach: float  # what the site may have been moved by in the rounds that its upload gathers


def refuse_reply(
    reply: messages.Reply | messages.Masked, member: Member, round: int, shape: tuple[int, ...], limit: float
) -> str | None:
    """Why a reply is rejected, or None; of a masked one only its form can be judged.

    Args:
        reply: what came.
        member: the site that was asked.
        round: the one it was asked to play.
        shape: of the weights.
        limit: the largest norm that is believed.
    """
    if reply.terms != member.terms:
        return "it is under other terms"
    if reply.round != round:
        return f"it is of round {reply.round}"
    if not member.acknowledged < reply.charges <= member.planned:
        return f"it is numbered {reply.charges}, and {member.acknowledged + 1} to {member.planned} can come"
    masked = isinstance(reply, messages.Masked)
    kind, shape = (np.uint64, (prod(shape),)) if masked else (np.float64, shape)
    if reply.upload.dtype != kind or reply.upload.shape != shape:
        return f"it is {reply.upload.dtype} of shape {reply.upload.shape}"
    if masked:
        return None
    if not np.isfinite(reply.upload).all():
        return "it is not finite"
    norm = norm_of(reply.upload)
    return f"its norm is {norm:.3g}, beyond {limit:.3g}" if norm > limit else None


def outlying(norms: Mapping[int, float], reaches: Mapping[int, float]) -> dict[int, str]:
    """Replies that are far beyond those of the others, by place, and why.

    Args:
        norms: of the uploads.
        reaches: what each site may have been moved by in the rounds that its upload gathers.
    """
    if len(norms) < FEWEST_TO_COMPARE:
        return {}
    median = float(np.median([norms[place] / reaches[place] for place in norms]))
    limits = {place: OUTLYING * reaches[place] * max(1.0, median) for place in norms}
    return {
        place: f"its norm is {norm:.3g}, where those of the others allow {limits[place]:.3g}"
        for place, norm in norms.items()
        if norm > limits[place]
    }


def reach(terms: Terms, agreed: Agreed[Any], size: int, round: int) -> float:
    r"""What one participation can move a site by: $Q s\,b + 2\sigma\sqrt d$, from public numbers."""
    batch = terms.batch(agreed)
    sensitivity = agreed.algorithm.sensitivity(round, batch)
    scale = np.max(agreed.plan.noise_scale(np.array([terms.place]), sensitivity))
    once = agreed.algorithm.local_steps * np.max(sensitivity * batch) + 2 * scale * np.sqrt(size)
    algorithm: Any = agreed.algorithm
    if isinstance(algorithm, StretchesSteps) and algorithm.stretches_uploads:  # other uploads are gradients
        once *= algorithm.stretch
    return float(once / (1 - getattr(algorithm, "momentum", 0.0)))  # moves that are made again add up to that


def limits_of(
    terms: Sequence[Terms], agreed: Agreed[Any], roster: Sequence[Member], asks: Mapping[int, messages.Ask], round: int
) -> dict[int, Limit]:
    """What is believed of each upload, from public numbers and from how long a site was away."""
    reaches = {place: reach(terms[place], agreed, ask.weights.size, round) for place, ask in asks.items()}
    gathered = {place: round - roster[place].merged for place in asks}
    longest = max(reaches.values())
    return {
        place: Limit(largest_norm(own, longest, round, gathered[place]), gathered[place] * own)
        for place, own in reaches.items()
    }


def largest_norm(own: float, longest: float, round: int, gathered: int) -> float:
    """The largest upload that is believed in a round, from the site's reach and the longest of all sites."""
    return GENEROUS * (2 * round * longest + gathered * own)


def largest_sums(terms: Terms, size: int, scale: float) -> float:
    """The same for a site's moments: sums over its records of values up to 1, and noise."""
    return float(GENEROUS * np.sqrt(size) * (int(terms.trained[terms.place]) + 2 * scale))


def largest_counts(tables: int, cells: int, held: int, scale: float) -> float:
    """The same for counts of records that were held out: each stands in one cell of every table."""
    return float(GENEROUS * (np.sqrt(tables) * held + 2 * scale * np.sqrt(cells)))


def planned_charges(agreed: Agreed[Any], place: int) -> int:
    """The most that a site is charged in the run: its rounds, its moments, its counts."""
    plan = agreed.plan
    most = plan.most_participations
    if most is None or not isinstance(plan, ProvedPlan):
        return agreed.rounds + 1
    return sum(times for _, times in plan.history(int(plan.group[place]), int(most[place])))


def norm_of(upload: np.ndarray) -> float:
    """Its L2 norm; an infinite one is beyond every limit."""
    with np.errstate(over="ignore"):
        return float(np.linalg.norm(upload))
