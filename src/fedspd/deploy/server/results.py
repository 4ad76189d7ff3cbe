"""What a finished run leaves: the same run as a simulation's, and besides what each site was asked and charged."""

import io
from math import ceil
from typing import Any

import numpy as np

from fedspd.assemble import Agreed, Run
from fedspd.assemble.summary import NUMBER, reply_size, stated_privacy
from fedspd.data import Recipe, Schema, Table
from fedspd.deploy.protocol.sums import of_cohort
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.server.checkpoint import Checkpoint
from fedspd.engine.measures import measures_on
from fedspd.escaping import escaped, write_csv
from fedspd.results import COLUMNS, SITES, History, Summary

NAN = float("nan")
SITE = ("site", "records", "asked", "answered", "charges", "epsilon", "retired")
ROUND = ("round", "asked", "answered", "late", "seconds")


def finished_run(checkpoint: Checkpoint, terms: Terms, agreed: Agreed[Any], schema: Schema, test: Table | None) -> Run:
    """The run as a simulation would leave it; what only a simulator knows is not a number."""
    weights = np.asarray(agreed.algorithm.model(checkpoint.server))
    last = terms.config.run.average_last or max(1, checkpoint.round // 4)
    average = checkpoint.recent[-last:].mean(axis=0) if len(checkpoint.recent) else weights
    history = History(
        {
            name: np.array([_number(row.get(name)) for row in checkpoint.history])
            if name != "round"
            else np.array([row["round"] for row in checkpoint.history], dtype=int)
            for name in COLUMNS
        }
    )
    summary = _summary(checkpoint, terms, agreed, history, _measured(agreed, test, weights, average))
    data = terms.config.data
    recipe = Recipe(schema, "unit", checkpoint.mean, checkpoint.deviation, data.bias, data.row_norm)
    return Run(terms.config, summary, history, weights, average, recipe)


def sites_of(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    """What each site was asked, answered and charged, as values JSON can hold."""
    return [{key: _plain(getattr(member, key)) for key in SITE} for member in checkpoint.roster]


def rounds_of(checkpoint: Checkpoint) -> str:
    """How each round went, as CSV."""
    text = io.StringIO()
    write_csv(text, [ROUND, *([row[name] for name in ROUND] for row in checkpoint.history)])
    return text.getvalue()


def table(sites: list[dict[str, Any]]) -> str:
    """The sites as text, a line for each."""
    lines = [f"{'site':<20}{'records':>9}{'asked':>7}{'answered':>10}{'charges':>9}{'epsilon':>9}"]
    for site in sites:
        epsilon = "" if site["epsilon"] is None else f"{ceil(site['epsilon'] * 1e4) / 1e4:.4f}"
        lines.append(
            f"{escaped(site['site']):<20}{site['records']:>9}{site['asked']:>7}{site['answered']:>10}{site['charges']:>9}"
            f"{epsilon:>9}  {escaped(site['retired'])}".rstrip()
        )
    return "\n".join(lines)


def _measured(agreed: Agreed[Any], test: Table | None, weights: np.ndarray, average: np.ndarray) -> dict[str, Any]:
    return measures_on(test, agreed.algorithm.objective.loss, weights, average)


def _summary(
    checkpoint: Checkpoint, terms: Terms, agreed: Agreed[Any], history: History, measured: dict[str, Any]
) -> Summary:
    config, roster, shape = terms.config, checkpoint.roster, checkpoint.server.shape[-2:]
    answered = [member.answered for member in roster]
    made = len(checkpoint.history)
    return Summary(
        **stated_privacy(
            config.algorithm.name,
            of_cohort(agreed.plan) if terms.shares_noise else agreed.plan,
            agreed.algorithm,
            history,
            float(np.mean(terms.sizes)),
            agreed.rounds * config.participants / len(roster),
        ),
        rounds=made,
        rounds_planned=agreed.rounds,
        stopped=None if made == agreed.rounds else f"after {made} of {agreed.rounds} rounds: too few sites were left",
        clients=len(roster),
        participants=config.participants,
        participations_max=max(answered),
        uploads=sum(answered),
        records_min=min(terms.sizes),
        records_max=max(terms.sizes),
        records=sum(terms.sizes),
        dimension=int(np.prod(shape)),
        penalty=agreed.algorithm.penalty,
        inverse_step=history.last("inverse_step"),
        test_accuracy=history.last("test_accuracy"),
        **measured,
        bytes_uploaded=NUMBER * reply_size(agreed.algorithm, *shape[-2:]) * sum(answered),
        **dict.fromkeys(("objective", "alfv", "consensus_error"), NAN),
        weights_norm=history.last("weights_norm"),
        clipped_share=NAN,
        convergence=None,
        wall_seconds=sum(row["seconds"] for row in checkpoint.history),
        seed=config.run.seed,
        columns=COLUMNS,
        engine=SITES,
        run=checkpoint.run,
    )


def _number(value: Any) -> float:
    return NAN if value is None else float(value)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
