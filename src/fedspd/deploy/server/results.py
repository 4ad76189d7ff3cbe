"""What a finished run leaves: the same run as a simulation's, and besides what each site was asked and charged."""

import io
from math import ceil
from typing import Any

import numpy as np

from fedspd.assemble import Agreed, Run
from fedspd.assemble.summary import NUMBER, stated_privacy, upload_size
from fedspd.data import Recipe, Schema, Table, finish
from fedspd.deploy.protocol.sums import of_cohorts
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.server.checkpoint import Checkpoint
from fedspd.engine.measuring.measures import measures_on
from fedspd.escaping import escaped, write_csv
from fedspd.privacy import ProvedPlan
from fedspd.results import COLUMNS, SITES, History, Summary

NAN = float("nan")
SITE = ("site", "records", "asked", "answered", "charges", "epsilon", "epsilon_alone", "retired")
ROUND = ("round", "asked", "answered", "late", "seconds")


def finished_run(checkpoint: Checkpoint, terms: Terms, agreed: Agreed[Any], schema: Schema, test: Table | None) -> Run:
    """The run as a simulation would leave it; what only a simulator knows is not a number."""
    weights, average = models_of(checkpoint, terms, agreed)
    history = History(
        {
            name: np.array([_number(row.get(name)) for row in checkpoint.history])
            if name != "round"
            else np.array([row["round"] for row in checkpoint.history], dtype=int)
            for name in COLUMNS
        }
    )
    summary = _summary(checkpoint, terms, agreed, history, _measured(agreed, test, weights, average))
    plan, recipe = _plan(terms, agreed), recipe_of(checkpoint, terms, schema)
    return Run(terms.config, summary, history, weights, average, recipe, tuple(plan.largest))


def models_of(checkpoint: Checkpoint, terms: Terms, agreed: Agreed[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The last model, and the mean of those of the last rounds."""
    weights = np.asarray(agreed.algorithm.model(checkpoint.server))
    last = terms.config.run.average_last or max(1, checkpoint.round // 4)
    return weights, checkpoint.recent[-last:].mean(axis=0) if len(checkpoint.recent) else weights


def recipe_of(checkpoint: Checkpoint, terms: Terms, schema: Schema) -> Recipe:
    """How records become rows."""
    data = terms.config.data
    return Recipe(schema, "unit", checkpoint.mean, checkpoint.deviation, data.bias, data.row_norm)


def scaled(table: Table, checkpoint: Checkpoint, terms: Terms) -> Table:
    """A table, as `read_table` gives it, ready to be scored."""
    data = terms.config.data
    assert data.row_norm is not None
    features = finish(table.features, checkpoint.mean, checkpoint.deviation, data.bias, data.row_norm)
    return table.with_features(features, (*table.columns, *(("bias",) if data.bias else ())))


def spent_by_sites(checkpoint: Checkpoint, plan: Any) -> np.ndarray | None:
    """At most what each site has spent on the run, by the charges it reports.

    Once sites were asked to measure the model, each counts as charged for it: one whose counts were lost may be.
    """
    if not isinstance(plan, ProvedPlan):
        return None
    charges = np.array([member.charges for member in checkpoint.roster])
    others = np.array([group.moments is not None for group in plan.groups])[plan.group].astype(int)
    others[list(checkpoint.counted)] += 1
    played = np.clip(charges - others, 0, plan.most_participations)
    return plan.spent(np.arange(len(charges)), played, checkpoint.evaluated)


def with_own_noise(checkpoint: Checkpoint, plan: Any) -> Checkpoint:
    """At most what each site's charges come to if everybody else colludes, where sites share noise."""
    if not isinstance(plan, ProvedPlan) or plan.draws.sharing is None:
        return checkpoint
    spent = spent_by_sites(checkpoint, plan.of_own_noise)
    assert spent is not None, "it is proved"
    for place, member in enumerate(checkpoint.roster):
        checkpoint = checkpoint.with_member(place, epsilon_alone=float(spent[place]) if member.charges else 0.0)
    return checkpoint


def sites_of(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    """What each site was asked, answered and charged, as values JSON can hold."""
    return [{key: _plain(getattr(member, key)) for key in SITE} for member in checkpoint.roster]


def rounds_of(checkpoint: Checkpoint) -> str:
    """How each round went, as CSV."""
    text = io.StringIO()
    write_csv(text, [ROUND, *([row[name] for name in ROUND] for row in checkpoint.history)])
    return text.getvalue()


def table(sites: list[dict[str, Any]]) -> str:
    """The sites as text, a line for each; `alone` is epsilon if everybody else colludes, where sites share noise."""
    shared = any(site.get("epsilon_alone") is not None for site in sites)
    heads = f"{'site':<20}{'records':>9}{'asked':>7}{'answered':>10}{'charges':>9}{'epsilon':>9}"
    lines = [heads + (f"{'alone':>9}" if shared else "")]
    for site in sites:
        counts = f"{site['records']:>9}{site['asked']:>7}{site['answered']:>10}{site['charges']:>9}"
        spent = f"{_upward(site['epsilon']):>9}" + (f"{_upward(site.get('epsilon_alone')):>9}" if shared else "")
        lines.append(f"{escaped(site['site']):<20}{counts}{spent}  {escaped(site['retired'])}".rstrip())
    return "\n".join(lines)


def _upward(epsilon: float | None) -> str:
    return "" if epsilon is None else f"{ceil(epsilon * 1e4) / 1e4:.4f}"


def _measured(agreed: Agreed[Any], test: Table | None, weights: np.ndarray, average: np.ndarray) -> dict[str, Any]:
    return measures_on(test, agreed.algorithm.objective.loss, weights, average)


def _summary(
    checkpoint: Checkpoint, terms: Terms, agreed: Agreed[Any], history: History, measured: dict[str, Any]
) -> Summary:
    config, roster, shape = terms.config, checkpoint.roster, checkpoint.server.shape[-2:]
    answered = [member.answered for member in roster]
    made, spent = len(checkpoint.history), spent_by_sites(checkpoint, agreed.plan)
    stated = stated_privacy(
        config.algorithm.name, _plan(terms, agreed), agreed.algorithm, history, float(np.mean(terms.trained)),
        agreed.rounds * config.participants / len(roster),
    )  # fmt: skip
    if checkpoint.evaluated and spent is not None:  # the history ends with the last round
        stated |= {"epsilon_spent_max": float(spent.max()), "epsilon_spent_mean": float(spent.mean())}
    return Summary(
        **stated,
        rounds=made,
        rounds_planned=agreed.rounds,
        stopped=None if made == agreed.rounds else f"after {made} of {agreed.rounds} rounds: too few sites were left",
        clients=len(roster),
        participants=config.participants,
        participations_max=max(answered),
        uploads=sum(answered),
        records_min=int(terms.trained.min()),
        records_max=int(terms.trained.max()),
        records=int(terms.trained.sum()),
        dimension=int(np.prod(shape)),
        penalty=agreed.algorithm.penalty,
        inverse_step=history.last("inverse_step"),
        test_accuracy=history.last("test_accuracy"),
        **measured,
        bytes_uploaded=NUMBER * upload_size(agreed.algorithm, agreed.plan, *shape[-2:]) * sum(answered),
        **dict.fromkeys(("objective", "alfv", "consensus_error"), NAN),
        weights_norm=history.last("weights_norm"),
        clipped_share=NAN,
        convergence=None,
        wall_seconds=sum(row["seconds"] for row in checkpoint.history),
        seed=terms.draws,  # run.seed alone says who is asked, and is behind no noise
        columns=COLUMNS,
        engine=SITES,
        run=checkpoint.run,
    )


def _plan(terms: Terms, agreed: Agreed[Any]) -> Any:
    return of_cohorts(terms, agreed.plan)


def _number(value: Any) -> float:
    return NAN if value is None else float(value)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
