"""What a server believes of a reply. A reply that fails changes nothing."""

from math import prod
from typing import Any

import numpy as np

from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.server.checkpoint import Member
from fedspd.experiment import Agreed

GENEROUS = 10.0  # how far beyond what is plausible a reply may be: honest ones never come near


def refuse_reply(
    reply: messages.Reply | messages.Masked, member: Member, round: int, shape: tuple[int, ...], limit: float
) -> str | None:
    """Why a reply is rejected, or None; of a masked one only its form can be judged.

    Args:
        reply: what came.
        member: the site that was asked.
        round: the one it was asked to play.
        shape: of the weights.
        limit: the largest plausible norm.
    """
    if reply.terms != member.terms:
        return "it is under other terms"
    if reply.round != round:
        return f"it is of round {reply.round}"
    if reply.charges <= member.acknowledged:
        return f"it is numbered {reply.charges} and {member.acknowledged} was merged before"
    masked = isinstance(reply, messages.Masked)
    kind, shape = (np.uint64, (prod(shape),)) if masked else (np.float64, shape)
    if reply.upload.dtype != kind or reply.upload.shape != shape:
        return f"it is {reply.upload.dtype} of shape {reply.upload.shape}"
    if masked:
        return None
    if not np.isfinite(reply.upload).all():
        return "it is not finite"
    with np.errstate(over="ignore"):  # an infinite norm is beyond every limit
        norm = float(np.linalg.norm(reply.upload))
    return f"its norm is {norm:.3g}, beyond {limit:.3g}" if norm > limit else None


def largest_norm(terms: Terms, agreed: Agreed[Any], weights: np.ndarray, round: int, asked: int) -> float:
    r"""A norm that no honest upload reaches: ten times $2\|x_0\| + n\,(s\,b + 2\sigma\sqrt d)$.

    A participation moves a client by at most the reach of a gradient, $s\,b/2$ for a sensitivity $s$ of batches of
    $b$, and by its noise; what an upload carries has gathered over at most n rounds that the site was asked for.
    """
    batch = terms.batch(agreed)
    sensitivity = agreed.algorithm.sensitivity(round, batch)
    scale = np.max(agreed.plan.noise_scale(np.array([terms.place]), sensitivity))
    gathered = asked * (np.max(sensitivity * batch) + 2 * scale * np.sqrt(weights.size))
    return float(GENEROUS * (2 * np.linalg.norm(weights) + gathered))


def largest_sums(terms: Terms, size: int, scale: float) -> float:
    """The same for a site's moments: sums over its records of values up to 1, and noise."""
    return float(GENEROUS * np.sqrt(size) * (terms.sizes[terms.place] + 2 * scale))
