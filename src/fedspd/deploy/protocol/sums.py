"""Sums in which sites share the noise: grid, range and noise of a part, by the same rule at the server and every site.

All of it follows from the common terms, over whose digest everything is signed, and nothing of it travels. So it is the
same for all members of a sum, as the proof asks (`docs/proofs/secure-sums.md`): bounds are those of the largest site,
and weights count as large as a server may ever send.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedspd.algorithms import Moments
from fedspd.algorithms.base import at_weights
from fedspd.assemble import Agreed
from fedspd.assemble.scaling import make_moments
from fedspd.config.sections import Privacy
from fedspd.data import Schema
from fedspd.deploy.masks.fixed_point import MOMENTS_STEP, STEP
from fedspd.errors import InputError
from fedspd.privacy import GradientSum, ProvedPlan, SharedNoise, sum_rounding
from fedspd.privacy.accounting import Event, SharedGaussian, alone
from fedspd.privacy.discrete import MemberNoise, member_noise

if TYPE_CHECKING:
    from fedspd.deploy.protocol.terms import Terms

SHARED = "secure-sums"
MORE = 1.01  # noise, where a cap on the second number leaves no room for the grid


@dataclass(frozen=True)
class Part:
    """What one member's part of a sum is made with."""

    noise: MemberNoise
    reach: float  # the declared range of a coordinate


def check_shared(aggregation: str, privacy: Privacy, threshold: int, colluders: int) -> None:
    """Refuse noise that sites share where no proof here covers it.

    Args:
        aggregation: of the run.
        privacy: its settings; what they leave open is filled in from the federation.
        threshold: fewest sites in a sum, as the federation has it; 0: it is not known yet.
        colluders: likewise.
    """
    if aggregation != "secure":
        raise InputError(
            f"privacy.trust = {SHARED} needs masks, got federation.aggregation = {aggregation}; set it to secure."
        )
    if privacy.cohorts not in (None, 1):
        raise InputError(
            f"sites that share noise are one cohort, got privacy.cohorts = {privacy.cohorts}; leave it out, or "
            "simulate."
        )
    for name, own in (("threshold", threshold), ("colluders", colluders)):
        asked = getattr(privacy, name)
        if threshold and asked not in (None, own):
            raise InputError(
                f"privacy.{name} must be that of the federation, {own}, got {asked}; leave it out, and set "
                f"federation.{name}."
            )


def for_members(terms: "Terms", agreed: Agreed[Any], schema: Schema) -> Agreed[Any]:
    """What was agreed on for the one cohort, with every site in a place of its own, and charged for its own noise.

    Guarantees:
        `privacy.epsilon_alone` is kept to, though a grid makes a site's own noise count for a little less.
    """
    most, members = terms.config.privacy.epsilon_alone, _placed(terms, agreed, schema)
    if most is not None and members.plan.epsilon_alone > most:
        members = _placed(terms, _raised(agreed), schema)
    return members


def _placed(terms: "Terms", agreed: Agreed[Any], schema: Schema) -> Agreed[Any]:
    plan: ProvedPlan = agreed.plan
    count, (group,) = len(terms.sizes), plan.groups
    moments = None
    if group.moments is not None:
        moments = _event(group.moments, moments_part(terms, agreed, schema).noise)
    event = _event(group.event, round_part(terms, agreed, _columns(terms, schema)).noise)
    assert plan.members is not None
    members = replace(
        plan,
        groups=(replace(group, event=event, moments=moments),),
        group=np.zeros(count, int),
        most_participations=np.repeat(plan.most_participations, count),
        members=np.repeat(plan.members, count),
    )
    return agreed._replace(plan=members)


def _raised(agreed: Agreed[Any]) -> Agreed[Any]:
    r"""The same with a hundredth more noise.

    A site's own multiplier on the grid is $\sqrt{z^2 - 4(h-1)g^2/S^2}/\sqrt h$, and $16g \le zS/\sqrt h$, so from
    $1.01z$ on it is at least $z/\sqrt h$, which the plan has counted on.
    """
    plan: ProvedPlan = agreed.plan
    (group,) = plan.groups
    event, moments = (
        each and SharedGaussian(MORE * each.noise_multiplier, MORE * alone(each).noise_multiplier)
        for each in (group.event, group.moments)
    )
    return agreed._replace(plan=replace(plan, groups=(replace(group, event=event, moments=moments),)))


def of_cohort(plan: ProvedPlan) -> ProvedPlan:
    """The plan with the cohort in its members' place, as a simulation states it."""
    if plan.draws.sharing is None or plan.members is None:
        return plan
    return replace(
        plan, group=plan.group[:1], most_participations=plan.most_participations[:1], members=plan.members[:1]
    )


def round_part(terms: "Terms", agreed: Agreed[Any], columns: int) -> Part:
    """Of a round: a member's sum of clipped gradients, over the records of all members."""
    algorithm: Any = agreed.algorithm
    outputs, divisor = algorithm.objective.loss.outputs, float(sum(terms.sizes))
    server, state, _ = algorithm.start(np.zeros((1, columns, outputs)))
    told = algorithm.broadcast(at_weights(server, np.full((columns, outputs), terms.largest_weight)), 1)
    batch = gradient_sum(terms, agreed, columns, max(terms.sizes), divisor)
    sensitivity = float(algorithm.sensitivity(1, divisor)) + 2 * algorithm.rounding(told, state, batch)
    noise = _noise(terms, agreed.plan.groups[0].event, agreed, sensitivity, columns * outputs, STEP)
    return Part(noise, batch.gradient_bound)


def moments_part(terms: "Terms", agreed: Agreed[Any], schema: Schema) -> Part:
    """Of the moments: a member's sums over its own records."""
    moments, longest = moments_of(terms, agreed, schema), max(terms.sizes)
    sensitivity = moments.sensitivity + 2 * sum_rounding(longest, 2 * int(schema.numeric.sum()))
    event = agreed.plan.groups[0].moments
    return Part(_noise(terms, event, agreed, sensitivity, moments_size(moments), MOMENTS_STEP), 2.0 * longest)


def moments_of(terms: "Terms", agreed: Agreed[Any], schema: Schema) -> Moments:
    """What sites sum up before the first round."""
    return make_moments(terms.config, schema.numeric, schema.categorical, terms.summed, agreed.plan)


def moments_size(moments: Moments) -> int:
    """How many sums they are."""
    numbers = int(moments.numeric.sum())
    return numbers + (len(moments.numeric) if moments.levels else numbers)


def gradient_sum(terms: "Terms", agreed: Agreed[Any], columns: int, records: int, divisor: float) -> GradientSum:
    """The public numbers that the rounding of a query depends on, with at most so many records in it."""
    objective, row_norm = agreed.algorithm.objective, terms.config.data.row_norm
    assert row_norm is not None
    return GradientSum(
        gradient_bound=objective.gradient_bound(row_norm),
        row_norm=row_norm,
        smoothness=objective.smoothness(row_norm),
        columns=columns,
        outputs=objective.loss.outputs,
        records=records,
        divisor=divisor,
    )


def _noise(
    terms: "Terms", event: Event, agreed: Agreed[Any], sensitivity: float, dimension: int, fine: float
) -> MemberNoise:
    sharing: SharedNoise = agreed.plan.draws.sharing
    multiplier = event.noise_multiplier
    if terms.draws is None:
        return member_noise(sharing, multiplier, sensitivity, dimension)
    # draws of a seed protect nobody and are there to be compared with a simulation's, which has no grid
    scale = sharing.member_scale(multiplier, sensitivity)
    return MemberNoise(fine, sensitivity, scale, sharing.alone(multiplier))


def _event(planned: Event, noise: MemberNoise) -> SharedGaussian:
    return SharedGaussian(planned.noise_multiplier, noise.alone)


def _columns(terms: "Terms", schema: Schema) -> int:
    return len(schema.columns) + bool(terms.config.data.bias)
