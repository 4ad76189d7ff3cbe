"""Sums in which sites share the noise: grid, range and noise of a part, by the same rule at the server and every site.

All of it follows from the common terms, over whose digest everything is signed, and nothing of it travels. So it is the
same for all members of a sum, as the proof asks (`docs/proofs/secure-sums.md`): bounds are those of the largest site,
and weights count as large as a server may ever send.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedspd.algorithms import Moments
from fedspd.algorithms.base import at_weights
from fedspd.assemble import Agreed
from fedspd.assemble.records.scaling import make_moments
from fedspd.config.sections import Privacy
from fedspd.data import Schema
from fedspd.data.holding.units import most_rows
from fedspd.deploy.masks.fixed_point import MOMENTS_STEP, STEP
from fedspd.deploy.protocol.counts import cells_of, counting_of
from fedspd.errors import InputError
from fedspd.privacy import POISSON, GradientSum, ProvedPlan, SharedNoise, sum_rounding
from fedspd.privacy.accounting import Event, alone
from fedspd.privacy.discrete import MemberNoise, gap, member_noise
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.typing import Unit

if TYPE_CHECKING:
    from fedspd.deploy.protocol.terms import Terms

SHARED = "secure-sums"
MORE = 1.01  # noise, where a cap on the second number leaves no room for the grid
MOST_GAP = 1e-12  # between whole numbers and a Gaussian, in all releases of a run: below the last digit of an epsilon


@dataclass(frozen=True)
class Part:
    """What one member's part of a sum is made with."""

    noise: MemberNoise
    reach: float  # the declared range of a coordinate
    size: int  # coordinates


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
    for name, own in (("threshold", threshold), ("colluders", colluders)):
        asked = getattr(privacy, name)
        if threshold and asked not in (None, own):
            raise InputError(
                f"privacy.{name} must be that of the federation, {own}, got {asked}; leave it out, and set "
                f"federation.{name}."
            )


def check_whole(unit: Unit, sizes: Sequence[int]) -> None:
    """Refuse whole clients that count as several."""
    if unit == "client" and set(sizes) != {1}:
        raise InputError("a whole client counts as one, got terms in which some count as more; update both sides.")


def for_members(terms: "Terms", agreed: Agreed[Any], schema: Schema) -> Agreed[Any]:
    """What was agreed on for cohorts, with every site in a place of its own, and charged for its own noise.

    Guarantees:
        `privacy.epsilon_alone` is kept to, though a grid makes a site's own noise count for a little less.
    """
    most, members = terms.config.privacy.epsilon_alone, _placed(terms, agreed, schema)
    if most is not None and members.plan.epsilon_alone > most:
        members = _placed(terms, _raised(agreed), schema)
    return members


def check_gap(parts: Sequence[tuple[Part, int]], members: int) -> None:
    r"""Refuse a grid so coarse, or a run so long, that sums of whole numbers are not what accountants speak of.

    Args:
        parts: of every kind of release, and how often a member makes it.
        members: h, whose noise is counted on.

    Guarantees:
        A run that is $(\varepsilon, \delta)$-private by its plan is $(\varepsilon + 2a, e^a\delta)$-private on the
        grid, with $a \le 10^{-12}$.
    """
    found = sum(gap(part.noise.scale / part.noise.grid, members, times * part.size) for part, times in parts)
    if found > MOST_GAP:
        raise InputError(
            f"noise on whole numbers may differ from a Gaussian by {MOST_GAP:g} in all releases of a run together, in "
            f"logarithms of probabilities, got {found:.2g}; plan fewer rounds, or fewer columns."
        )


def _placed(terms: "Terms", agreed: Agreed[Any], schema: Schema) -> Agreed[Any]:
    plan: ProvedPlan = agreed.plan
    count, (group,), sharing = len(terms.sizes), plan.groups, plan.draws.sharing
    assert sharing is not None
    assert plan.members is not None
    part = round_part(terms, agreed, _columns(terms, schema))
    parts, moments, counts = [(part, int(plan.most_participations.max()))], None, None
    if group.moments is not None:
        parts.append((moments_part(terms, agreed, schema), 1))
        moments = _event(group.moments, parts[-1][0].noise)
    if group.evaluation is not None:
        parts.append((counts_part(terms, agreed, schema), 1))
        counts = _event(group.evaluation, parts[-1][0].noise)
    check_gap(parts, sharing.honest)
    event = _event(group.event, part.noise)
    members = replace(
        plan,
        groups=(replace(group, event=event, moments=moments, evaluation=counts),),
        group=np.zeros(count, int),
        most_participations=plan.most_participations[terms.cohort],
        members=plan.members[terms.cohort],
    )
    return agreed._replace(plan=members)


def _raised(agreed: Agreed[Any]) -> Agreed[Any]:
    r"""The same with a hundredth more noise.

    A site's own multiplier on the grid is $\sqrt{z^2 - 4(h-1)g^2/S^2}/\sqrt h$, and $16g \le zS/\sqrt h$, so from
    $1.01z$ on it is at least $z/\sqrt h$, which the plan has counted on.
    """
    plan: ProvedPlan = agreed.plan
    (group,) = plan.groups
    event, moments, counts = (
        each and _with_noise(each, MORE * each.noise_multiplier, MORE * alone(each).noise_multiplier)
        for each in (group.event, group.moments, group.evaluation)
    )
    raised = replace(group, event=event, moments=moments, evaluation=counts)
    return agreed._replace(plan=replace(plan, groups=(raised,)))


def of_cohorts(terms: "Terms", plan: Any) -> Any:
    """The plan with cohorts in their members' place, as a simulation states it; other plans as they are."""
    if not isinstance(plan, ProvedPlan) or plan.draws.sharing is None or plan.members is None:
        return plan
    first = [places[0] for places in terms.in_cohorts]
    return replace(
        plan, group=plan.group[first], most_participations=plan.most_participations[first], members=plan.members[first]
    )


def round_part(terms: "Terms", agreed: Agreed[Any], columns: int) -> Part:
    """Of a round: a member's sum of clipped gradients, over the records that all members take."""
    algorithm: Any = agreed.algorithm
    outputs, divisor = algorithm.objective.loss.outputs, float(terms.batch(agreed)[0])
    longest = int(longest_batches(terms, agreed).max())
    server, state, _ = algorithm.start(np.zeros((1, columns, outputs)))
    told = algorithm.broadcast(at_weights(server, np.full((columns, outputs), terms.largest_weight)), 1)
    batch = gradient_sum(terms, agreed, columns, longest, divisor)
    sensitivity = float(algorithm.sensitivity(1, divisor)) + 2 * algorithm.rounding(told, state, batch)
    event, size = agreed.plan.groups[0].event, columns * outputs
    reach = float(algorithm.sensitivity(1, 1.0)) / RECORD_MOVES[algorithm.relation]  # of one record, or one client
    reach *= max(1.0, longest / divisor)
    return Part(_noise(terms, event, agreed, sensitivity, size, STEP), reach, size)


def longest_batches(terms: "Terms", agreed: Agreed[Any]) -> np.ndarray:
    """The most records that each site may ever draw: all of them where chance decides how many join."""
    return terms.trained if agreed.plan.sampling == POISSON else terms.drawn


def moments_part(terms: "Terms", agreed: Agreed[Any], schema: Schema) -> Part:
    """Of the moments: a member's sums over its own records."""
    moments, longest = moments_of(terms, agreed, schema), int(terms.trained.max())
    sensitivity = moments.sensitivity + 2 * moments_rounding(terms, schema, longest)
    event, size = agreed.plan.groups[0].moments, moments_size(moments)
    return Part(_noise(terms, event, agreed, sensitivity, size, MOMENTS_STEP), 2.0 * longest, size)


def counts_part(terms: "Terms", agreed: Agreed[Any], schema: Schema) -> Part:
    """Of the measurement: a member's counts of its own held-out records, which are summed without rounding."""
    counting, event = counting_of(terms, schema), agreed.plan.groups[0].evaluation
    sensitivity, size = counting.sensitivity(agreed.plan.relation), cells_of(counting)
    noise = _noise(terms, event, agreed, sensitivity, size, MOMENTS_STEP)
    return Part(noise, float(terms.held_out.max()), size)


def counts_scales(terms: "Terms", agreed: Agreed[Any], schema: Schema) -> np.ndarray:
    """The noise on each site's counts, from public numbers."""
    if terms.shares_noise:
        return np.full(len(terms.sizes), counts_part(terms, agreed, schema).noise.scale)
    return agreed.plan.evaluation_scale(counting_of(terms, schema).sensitivity(agreed.plan.relation))


def moments_rounding(terms: "Terms", schema: Schema, records: int) -> float:
    """How far the sums of so many records, persons or clients may be off."""
    numbers = int(schema.numeric.sum())
    if terms.unit == "record":
        return sum_rounding(records, 2 * numbers)
    return sum_rounding(records, len(schema.numeric) + numbers, most_rows(terms.unit))


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
        rows=most_rows(terms.unit),
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


def _event(planned: Event, noise: MemberNoise) -> Event:
    return _with_noise(planned, planned.noise_multiplier, noise.alone)


def _with_noise(planned: Event, together: float, own: float) -> Event:
    """The event with other noise: of all members, and of one."""
    return replace(planned, noise_multiplier=together, own_multiplier=own)  # pyright: ignore[reportCallIssue]


def _columns(terms: "Terms", schema: Schema) -> int:
    return len(schema.columns) + bool(terms.config.data.bias)
