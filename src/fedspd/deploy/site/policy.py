"""What a site refuses: decided from public numbers and the site's own file, before a record is used."""

from typing import Any

import numpy as np

from fedspd.algorithms.base import most_stretched
from fedspd.assemble import Agreed
from fedspd.data import Schema
from fedspd.deploy.protocol.messages import COUNTS, Ask, AskMasked, Count, CountMasked
from fedspd.deploy.protocol.terms import SECURE, Terms, columns_of
from fedspd.deploy.site.computing.records import Records, count_of
from fedspd.deploy.site.settings import SITE_UNITS, Site
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan
from fedspd.privacy.ledger import Budget

LARGEST_MEAN = 1000.0  # that columns in [-1, 1] are shifted by: larger ones would only make features overflow
SMALLEST_DEVIATION = 1e-3  # that they are divided by, whatever the run's own floor is


class Refusal(InputError):  # noqa: N818 (it is no error to refuse)
    """A reason that may be sent to the server: it says nothing about any record.

    Args:
        reason: one sentence.
        final: whether asking again is of no use in this run.
    """

    def __init__(self, reason: str, final: bool = True) -> None:
        super().__init__(reason)
        self.final = final


def counted(site: Site, schema: Schema, records: Records, unit: Any) -> int:
    """How many records or persons the site has; another unit than the owner's is refused before anything is counted.

    Where persons are protected, how many rows there are is nobody's business; a whole client counts as one.
    """
    if unit not in SITE_UNITS:
        raise Refusal(f"what is protected must be one of {', '.join(SITE_UNITS)}, got something else; name one.")
    if site.budget is not None and unit != site.budget.unit:
        raise Refusal(f"the budget here is of every {site.budget.unit}, the run protects every {unit}.")
    if unit == "person" and schema.person is None:
        raise Refusal("the run protects persons, and the schema names no column that says whom a record is about.")
    return count_of(unit, records.table(site.path("data"), schema, unit))


def check_terms(site: Site, terms: Terms, agreed: Agreed[Any], schema: Schema, records: int) -> None:
    """Refuse terms that are not of this site's data or that its owner does not allow."""
    if terms.schema != schema.digest:
        raise Refusal(f"the site's schema is {schema.digest}, the run's is {terms.schema}; share one schema file.")
    if terms.sizes[terms.place] != records:
        raise Refusal(
            f"the site holds {records} {terms.unit}s, the run counts on {terms.sizes[terms.place]}; start it anew."
        )
    if site.budget is None:
        return
    if terms.draws is not None:
        raise Refusal("draws that a server fixes are for tests without a budget; this site has one.")
    policy, config, method = site.policy, terms.config, terms.config.algorithm.name
    if terms.largest_weight > policy.largest_weight:
        raise Refusal(
            f"weights up to {policy.largest_weight:g} are taken here, the run announces up to {terms.largest_weight:g}."
        )
    if method not in policy.methods:
        raise Refusal(f"the method {method!r} is not among those allowed here: {', '.join(policy.methods)}.")
    clipped = config.problem.clip_norm
    if clipped != policy.clip_norm:
        other = "by a rule" if clipped is None else f"to {clipped:g}"
        raise Refusal(f"gradients are clipped to {policy.clip_norm:g} here, not {other}.")
    if config.data.row_norm != policy.row_norm:
        raise Refusal(f"rows are shortened to {policy.row_norm:g} here, not to {config.data.row_norm:g}.")
    _check_held_out(policy.held_out, config.evaluation.held_out)
    batch = _averaged(terms, agreed)
    if batch < policy.min_batch:
        raise Refusal(
            f"a gradient is averaged over at least {policy.min_batch} {terms.unit}s here, not over {batch:g}."
        )
    _check_plan(site, terms, agreed.plan)


def _check_held_out(own: float | None, asked: float | None) -> None:
    """Refuse another share than the owner's: what one run holds out, another one would train on."""
    if own == asked:
        return
    here, there = (f"{share:g} of the records" if share is not None else "no record" for share in (own, asked))
    raise Refusal(f"{here} is held out here to measure models on, the run holds out {there}; policy.held_out says it.")


def _averaged(terms: Terms, agreed: Agreed[Any]) -> float:
    """What a gradient is averaged over, at least: of whole clients, so many as are in every sum."""
    if terms.unit == "client":
        return float(terms.threshold)
    return float(terms.drawn[terms.place] if terms.shares_noise else terms.batch(agreed)[0])


def _check_plan(site: Site, terms: Terms, plan: ProvedPlan) -> None:
    budget, rounds = site.budget, int(plan.most_participations[terms.place])
    assert budget is not None
    if plan.relation != budget.relation:
        raise Refusal(f"the budget here is for {budget.relation} neighbors, the run's for {plan.relation} ones.")
    epsilon = float(plan.budgets[terms.place])
    if epsilon > budget.epsilon or plan.delta > budget.delta:
        raise Refusal(
            f"the budget here is epsilon {budget.epsilon:g} at delta {budget.delta:g}, the run's noise is for "
            f"{epsilon:g} at {plan.delta:g}; it needs more noise."
        )
    _check_alone(budget, plan)
    if epsilon > (site.policy.most_epsilon or epsilon):
        raise Refusal(f"one run may spend epsilon {site.policy.most_epsilon:g} here, this one plans {epsilon:g}.")
    if rounds > site.policy.most_rounds:
        raise Refusal(f"at most {site.policy.most_rounds} rounds of a run are played here, the run plans {rounds}.")


def _check_alone(budget: Budget, plan: ProvedPlan) -> None:
    """Refuse shared noise where the owner has not said what a site's own share of it must be worth."""
    alone = plan.epsilon_alone
    if alone is None:
        return
    if budget.epsilon_alone is None:
        raise Refusal(
            "the run's sites share noise, and the budget here has no epsilon_alone, which says what the site's own "
            "share of it must be worth."
        )
    if alone > budget.epsilon_alone:
        raise Refusal(
            f"the budget here is epsilon {budget.epsilon_alone:g} if everybody else colludes, the run's noise is for "
            f"{alone:.4g}; it needs more noise, or privacy.epsilon_alone = {budget.epsilon_alone:g}."
        )


def check_ask(site: Site, terms: Terms, agreed: Agreed[Any], schema: Schema, ask: Ask | AskMasked) -> None:
    """Refuse numbers that would void the proof: weights or scales out of range, of another shape, or not finite."""
    if isinstance(ask, AskMasked) != (terms.aggregation == SECURE):
        raise Refusal(f"the run's aggregation is {terms.aggregation!r}, the round asks for another one.")
    check_model(terms, agreed, schema, ask)
    most = most_stretched(agreed.algorithm)
    if not 1 <= ask.stretch <= most:  # also false for what is not a number
        raise Refusal(f"the run's uploads are stretched by 1 to {most:g}, got {ask.stretch:g}.")
    if not 1 <= ask.round <= agreed.rounds:
        raise Refusal(f"the run has rounds 1 to {agreed.rounds}, got {ask.round}.")


def check_count(terms: Terms, agreed: Agreed[Any], schema: Schema, request: Count | CountMasked) -> None:
    """Refuse to count where the terms do not, in another way than they say, or by a model that is none."""
    if not terms.bins:
        raise Refusal("the terms of the run hold no record out to measure a model on.")
    masked = isinstance(request, CountMasked)
    if masked != (terms.aggregation == SECURE):
        raise Refusal(f"the run's aggregation is {terms.aggregation!r}, the measurement asks for another one.")
    if masked and request.round != COUNTS:  # whose upload is masked once
        raise Refusal(f"held-out records are counted in a masked round {COUNTS}, got round {request.round}.")
    check_model(terms, agreed, schema, request)


def check_model(terms: Terms, agreed: Agreed[Any], schema: Schema, ask: Ask | AskMasked | Count | CountMasked) -> None:
    """Refuse weights and scales out of range, of another shape, or not finite."""
    matrix = columns_of(schema, terms.config), agreed.algorithm.objective.loss.outputs
    if ask.weights.dtype != np.float64 or ask.weights.shape != matrix:
        raise Refusal(f"weights must be a float64 matrix of shape {matrix}, got {ask.weights.dtype} of another shape.")
    if not (np.abs(ask.weights) <= terms.largest_weight).all():  # also false for what is not a number
        raise Refusal(f"weights must be finite and at most {terms.largest_weight:g}, got larger ones.")
    for name, values in (("mean", ask.mean), ("deviation", ask.deviation)):
        if values.dtype != np.float64 or values.shape != (len(schema.columns),):
            raise Refusal(f"the {name} must be {len(schema.columns)} float64 numbers, got another shape.")
    floor = max(terms.config.data.deviation_floor, SMALLEST_DEVIATION)
    if not (np.abs(ask.mean) <= LARGEST_MEAN).all() or not ((ask.deviation >= floor) & (ask.deviation < np.inf)).all():
        raise Refusal(f"columns are scaled by means up to {LARGEST_MEAN:g} and deviations from {floor:g} only.")
