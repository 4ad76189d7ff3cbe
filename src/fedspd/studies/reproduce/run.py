"""Rerun the paper's figures: tune what is to be tuned, run every curve with every seed, keep the bands."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedspd.assemble.build import prepare_experiment
from fedspd.config import Config, changed
from fedspd.privacy import WHOLE_SHARD, ProvedPlan, PublishedPlan
from fedspd.privacy.accounting import Gaussian, calibrate, spent
from fedspd.studies.jobs import Result, run_all
from fedspd.studies.reproduce.plan import Curve, Study
from fedspd.studies.tuning import TRIALS, tune

PRIVACY_POINTS = 20  # rounds at which a total loss is evaluated


@dataclass(frozen=True)
class Lines:
    """One curve with its runs, one per seed, or its total privacy loss where nothing is trained."""

    curve: Curve
    chosen: dict[str, Any]  # by tuning
    results: tuple[Result, ...] = ()
    rounds: np.ndarray | None = None
    loss: np.ndarray | None = None

    def column(self, name: str) -> np.ndarray:
        """(seeds, rounds) of a column of the histories."""
        return np.array([result.history[name] for result in self.results])


@dataclass(frozen=True)
class Reproduced:
    """A study and what came out."""

    study: Study
    lines: tuple[Lines, ...]

    def line(self, label: str) -> Lines:
        """The curve with this label."""
        return next(lines for lines in self.lines if lines.curve.label == label)


def count_runs(studies: Sequence[Study], seeds: int) -> int:
    """How many runs a reproduction takes, trials included."""
    curves = [curve for study in studies if study.measure == "runs" for curve in study.curves]
    return sum(seeds + (TRIALS if curve.tuned else 0) for curve in curves)


def reproduce(studies: Sequence[Study], seeds: int, on_run: Callable[[], Any] = lambda: None) -> list[Reproduced]:
    """All studies, as few batches of runs as possible: first the trials, then the curves."""
    trained = [curve for study in studies if study.measure == "runs" for curve in study.curves]
    tuned = [curve for curve in trained if curve.tuned]
    chosen = dict(zip(map(id, tuned), tune([curve.config for curve in tuned], on_run), strict=True))
    final = {id(curve): changed(curve.config, chosen.get(id(curve), {})) for curve in trained}
    jobs = [changed(final[id(curve)], {"run.seed": seed}) for curve in trained for seed in range(seeds)]
    results = run_all(jobs, on_run)
    runs = {id(curve): tuple(results[i * seeds : (i + 1) * seeds]) for i, curve in enumerate(trained)}
    return [Reproduced(study, tuple(_lines(study, curve, chosen, runs) for curve in study.curves)) for study in studies]


def _lines(
    study: Study, curve: Curve, chosen: Mapping[int, dict[str, Any]], runs: Mapping[int, tuple[Result, ...]]
) -> Lines:
    if study.measure == "runs":
        return Lines(curve, chosen.get(id(curve), {}), runs[id(curve)])
    rounds, loss = total_loss(curve.config)
    return Lines(curve, {}, rounds=rounds, loss=loss)


def total_loss(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """The total epsilon after some rounds: by the paper's formula, or recomposed.

    Proved: every release has the noise of a Gaussian mechanism with the stated epsilon and delta on the
    records that were drawn; the accountant then counts the subsampling and the participations, p t
    rounded up. Nothing is gained from the choice of participants, which the server knows.
    """
    experiment = prepare_experiment(config)
    plan, simulation = experiment.plan, experiment.simulation
    rounds = np.linspace(0, simulation.rounds, PRIVACY_POINTS + 1)[1:].round()
    share = simulation.participants / simulation.shards.clients
    if isinstance(plan, PublishedPlan):
        records = len(simulation.shards.labels) / simulation.shards.clients
        return rounds, np.array([float(plan.stated(records, share * count)) for count in rounds])
    return rounds, np.array([_recomposed(plan, config, int(np.ceil(share * count - 1e-9))) for count in rounds])


def _recomposed(plan: ProvedPlan, config: Config, participations: int) -> float:
    multiplier = calibrate(Gaussian, 1, config.privacy.epsilon, config.privacy.delta)
    sized = plan.sampling != WHOLE_SHARD or plan.draws.counts_positions
    sizes: set[int] = {group.event.records if sized else 0 for group in plan.groups}  # pyright: ignore
    return max(spent([(plan.draws.event(size, multiplier), participations)], plan.delta).epsilon for size in sizes)
