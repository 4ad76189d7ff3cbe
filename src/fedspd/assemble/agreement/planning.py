"""A plan before there is any data: what the rules would choose, and the noise it means."""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from fedspd.algorithms.methods.fedspd import FedSPD, averaged_noise
from fedspd.algorithms.parts.spd_on_sums import SPDOnSums
from fedspd.assemble.agreement import Agreed, agree
from fedspd.assemble.cohorts import cohorts_of, pooled_holdings, told_trust
from fedspd.assemble.records.deal import counted, deal, measured_on
from fedspd.assemble.records.encoding import schema_for
from fedspd.assemble.records.held_out import check_relation
from fedspd.assemble.settled import settle
from fedspd.config import Config
from fedspd.data import Cells, Holdings
from fedspd.data.holding.held_out import planned_holdings
from fedspd.engine.batches import nominal_sizes
from fedspd.errors import InputError
from fedspd.evaluate.counting import BINS, Counting
from fedspd.evaluate.intervals import QUANTILE
from fedspd.privacy import WITHOUT_REPLACEMENT, ProvedPlan, PublishedPlan, paper, plan_as_published
from fedspd.privacy.accounting import Accountant, FixedSize, calibrate
from fedspd.reading import shown
from fedspd.target import Classes

PAPERS_STEPS, PAPERS_BATCH = 5, 10
MOST_CLIENTS = 10**10


def proposed_plan(config: Config, records: int) -> dict[str, Any]:
    """Rounds, step sizes and multiplier; of FedSPD-DP on whole shards, noise on the averaged model, and the paper's.

    Args:
        config: with the number of clients.
        records: of each client.
    """
    if records < 1:
        raise InputError(f"records must be at least 1, got {records}; correct them.")
    if config.partition.clients > MOST_CLIENTS:
        raise InputError(
            f"clients must be at most {MOST_CLIENTS:g}, got {shown(config.partition.clients)}; correct them."
        )
    if config.algorithm.method.kind.law != "gaussian":
        raise InputError(
            "a plan of pure privacy needs a table, since noise of that law depends on the number of columns, got "
            f"{config.algorithm.name} without one; add --data, or plan another method."
        )
    target, work = Classes("label", ("no", "yes")), config.algorithm.work
    check_relation(config, persons=False)
    held = Holdings(np.full(config.partition.clients, records), config.problem.counts)  # pyright: ignore[reportArgumentType]
    dealt = planned_holdings(held, config.evaluation.held_out)
    agreed = agree(config, dealt, 1, target)
    return {
        "algorithm": config.algorithm.name,
        "batch_size": work.batch_size or records,
        "local_steps": work.local_steps,
        **_told(config, config.participants, agreed),
        **told_evaluation(config, agreed.plan, held.records),
        **_beside_the_paper(config, agreed, dealt, records),
    }


def _told(config: Config, participants: int, agreed: Agreed[Any]) -> dict[str, Any]:
    """What follows from an agreement, whatever the method."""
    algorithm, made, plan = agreed.algorithm, agreed.made, agreed.plan
    most = plan.most_participations if isinstance(plan, ProvedPlan) else None
    inverse_step = getattr(algorithm, "inverse_step", None)
    return {
        "rounds": made.rounds,
        "participants": participants,
        "participations": None if most is None else int(most.max()),
        "clip_norm": algorithm.objective.clip_norm,
        "inverse_step": inverse_step if isinstance(inverse_step, float) else None,
        "penalty": algorithm.penalty,
        "momentum": getattr(algorithm, "momentum", None),
        "averaging": None if (share := getattr(algorithm, "averaging", None)) is None else bool(share),
        "epsilon": _total(config, plan),
        "delta": plan.delta,
        "guarantee": plan.guarantee,
        "unit": plan.unit,
        "relation": plan.relation,
        "noise_multiplier": float(np.max(getattr(plan, "noise_multipliers", getattr(plan, "noise_multiplier", 0.0)))),
        **told_trust(plan),
    }


def _total(config: Config, plan: ProvedPlan | PublishedPlan) -> float:
    """Epsilon of all that is planned: of a given noise, or of a budget for a round, what they come to."""
    return float(np.max(plan.budgets)) if isinstance(plan, ProvedPlan) else config.privacy.epsilon


def _beside_the_paper(config: Config, agreed: Agreed[Any], dealt: Holdings, records: int) -> dict[str, float]:
    """Noise on the average of all uploads, beside the paper's at the same step size, where the two compare."""
    algorithm, plan, participations = agreed.algorithm, agreed.plan, agreed.made.participations
    work = config.algorithm.work
    alike = work.batch_size is None and config.privacy.unit == "record"
    if not isinstance(algorithm, FedSPD | SPDOnSums) or not alike or participations is None:
        return {}
    cohorts = cohorts_of(config)
    holdings = pooled_holdings(dealt, cohorts)
    clipped, gamma, rho = algorithm.objective.clip_norm, algorithm.inverse_step, algorithm.penalty
    everybody = np.arange(holdings.clients)
    divisors = nominal_sizes(holdings, everybody, None, work.local_steps)
    scale = float(np.max(plan.noise_scale(everybody, algorithm.sensitivity(1, divisors))))
    noise = averaged_noise(scale / (gamma + rho if cohorts else 1.0), holdings.clients)
    epsilon, delta = _total(config, plan), config.privacy.delta
    papers = papers_noise(epsilon, delta, dealt.clients, records, participations, clipped, gamma, rho)
    return {
        "noise_on_the_average": noise,
        "papers_noise_on_the_average": papers,
        "times_less_noise": papers / noise,
        **{
            f"times_less_noise_at_the_papers_sampling_{accountant}": ratio
            for accountant, ratio in same_sampling(epsilon, delta, records, participations).items()
        },
    }


class Agreement(NamedTuple):
    """What a run agrees on, and the public numbers it follows from."""

    settled: Config
    agreed: Agreed[Any]
    dealt: Holdings  # of the clients
    width: int  # of the features


def agreement_of(config: Config, cells: Cells) -> Agreement:
    """What a run would agree on, from how many records each client holds and from settings; no cell is looked at."""
    settled = settle(config, cells)
    check_relation(settled, cells.train.persons is not None)
    all_of = deal(settled, measured_on(settled, cells.train, cells.test)[0]).holdings
    dealt = planned_holdings(all_of, config.evaluation.held_out)
    width = len(schema_for(settled, cells.schema, counted(settled, cells.train)).columns) + (config.data.bias != 0)
    return Agreement(settled, agree(settled, dealt, width, cells.schema.target), dealt, width)


def plan_of(config: Config, cells: Cells) -> dict[str, Any]:
    """What a run would do, from how many records each client holds and from settings; no cell is looked at."""
    settled, agreed, dealt, width = agreement_of(config, cells)
    return {
        "algorithm": config.algorithm.name,
        "clients": dealt.clients,
        "records_min": int(dealt.sizes.min()),
        "records_max": int(dealt.sizes.max()),
        "features": width,
        **_told(config, settled.participants, agreed),
        **told_evaluation(config, agreed.plan, len(measured_on(settled, cells.train, cells.test)[0])),
    }


def told_evaluation(config: Config, plan: ProvedPlan | PublishedPlan, records: int) -> dict[str, Any]:
    """What is kept to measure the model: records, a share of the budget, and half the interval of an accuracy."""
    share = config.evaluation.held_out
    if share is None or not isinstance(plan, ProvedPlan):
        return {}
    counting, held = Counting(("no", "yes"), BINS), int(share * records)
    noise = float(np.sum(plan.evaluation_scale(counting.sensitivity(plan.relation)) ** 2)) * BINS / 2
    events = [group.evaluation for group in plan.groups if group.evaluation is not None]
    return {
        "held_out": share,
        "held_out_records": held,
        "evaluation_share": config.evaluation.share,
        "evaluation_noise_multiplier": max(event.noise_multiplier for event in events),
        "accuracy_measured_within": QUANTILE * sqrt(noise + held / 4) / held,
    }


def same_sampling(epsilon: float, delta: float, records: int, participations: int) -> dict[Accountant, float]:
    r"""The paper's noise on an upload over ours, both with its Q = 5, b = 10, by accountant.

    Ours is at most $4G z/(b(\gamma+\rho))$ whatever Q is; step sizes and G cancel.
    """
    drawn = min(PAPERS_STEPS * PAPERS_BATCH, records - 1)
    papers = plan_as_published(
        epsilon, "total", delta, WITHOUT_REPLACEMENT, drawn, np.array([records]), participations
    ).noise_multiplier * paper.sensitivity(1.0, PAPERS_STEPS, 0.0, 1.0)
    accountants: tuple[Accountant, ...] = ("rdp", "pld")
    return {
        accountant: papers
        * PAPERS_BATCH
        / (4 * calibrate(lambda z: FixedSize(z, records, drawn), participations, epsilon, delta, (), accountant))
        for accountant in accountants
    }


def papers_noise(
    epsilon: float, delta: float, clients: int, records: int, participations: int, clip_norm: float, gamma: float,
    rho: float,
) -> float:  # fmt: skip
    """What the paper's Lemma 2 and Theorem 1 put on the average, with its Q = 5, b = 10, at the same step size."""
    drawn = min(PAPERS_STEPS * PAPERS_BATCH, records - 1)
    plan = plan_as_published(
        epsilon, "total", delta, WITHOUT_REPLACEMENT, drawn, np.full(clients, records), participations
    )
    return plan.noise_multiplier * paper.sensitivity(clip_norm, PAPERS_STEPS, rho, gamma) / sqrt(clients)
