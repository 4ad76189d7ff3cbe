"""Play cells: by rule, and at the best point of a tuned grid; only the last model is measured."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from benchmarks.defaults.cells import PRESET, Cell, is_tuned, records_of
from benchmarks.defaults.rows import RULE, TUNED, Row, settings_text
from benchmarks.defaults.tables import GENERATED
from fedspd.assemble import prepare_experiment
from fedspd.assemble.records.scaling import memory
from fedspd.config import load
from fedspd.engine import simulate
from fedspd.engine.measuring.measures import measures_on
from fedspd.target import Classes

QUICK = {
    "metrics.criterion": False, "metrics.lagrangian": False, "metrics.spent_every_round": False,
    "metrics.objective_every": 0, "run.engine": "numpy",
}  # fmt: skip
STEP_SCALES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
CLIP_NORMS = (0.25, 0.5, 1.0, 2.0)
UPLOADS = (40, 10, 160)  # of a client; all steps and clips are tried with the first, the best of them with the others
_KNOWN = memory()  # of a process that plays one run after another: points that are tried with a seed share its records
KEPT = (4, 3)  # points that are tried with other rounds, and then with more seeds
TRIAL_SEEDS = ((1000, 1001), (1002, 1003, 1004, 1005))  # never used for results
TUNING = (
    f"step_scale {', '.join(f'{each:g}' for each in STEP_SCALES)} x clip_norm "
    f"{', '.join(f'{each:g}' for each in CLIP_NORMS)} x {', '.join(map(str, sorted(UPLOADS)))} uploads of a client, "
    "chosen on a fifth of the training records, not charged: "
    f"all steps and clips with {UPLOADS[0]} uploads and {len(TRIAL_SEEDS[0])} seeds, the best {KEPT[0]} with the other "
    f"numbers of uploads, the best {KEPT[1]} with {len(TRIAL_SEEDS[1])} more seeds"
)


class Point(NamedTuple):
    """What tuning sets."""

    step_scale: float
    clip_norm: float
    uploads: int  # of a client

    def settings(self, cell: Cell) -> dict[str, Any]:
        """As they stand in a configuration."""
        return {
            "algorithm.step_scale": self.step_scale,
            "problem.clip_norm": self.clip_norm,
            "run.rounds": -(-self.uploads * cell.clients // cell.participants),
        }


class Played(NamedTuple):
    """What is kept of a run."""

    score: float
    trivial: float
    rounds: int


class Job(NamedTuple):
    """Runs that one process plays after another, since they share a deal or a choice."""

    kind: str
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]

    def keys(self) -> list[tuple[Any, ...]]:
        """Of the rows it leads to."""
        return [(self.kind, cell, seed) for cell in self.cells for seed in self.seeds]


def jobs_of(cells: Iterable[Cell], seeds: int, tuning: bool) -> list[Job]:
    """The longest first: tuned cells, then those by rule that share a deal, from large data sets to small ones."""
    dealt: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        dealt.setdefault((cell.data, cell.clients, cell.deal), []).append(cell)
    tuned = [Job(TUNED, (cell,), tuple(range(seeds))) for cell in cells if tuning and is_tuned(cell)]
    ruled = [Job(RULE, tuple(some), (seed,)) for some in dealt.values() for seed in range(seeds)]
    return [job for some in (tuned, ruled) for job in sorted(some, key=lambda job: -_size(job.cells[0].data))]


def _size(data: str) -> int:
    table = records_of(data).train
    return table.features.size * max(1, len(table.classes))


def play_job(job: Job, settings: Mapping[str, Any], program: str) -> list[Row]:
    """Its rows."""
    return list(_rows(job, settings, program))


def _rows(job: Job, settings: Mapping[str, Any], program: str) -> Iterator[Row]:
    for cell in job.cells:
        point = None if job.kind == RULE else tune(cell, settings)
        chosen = {} if point is None else point.settings(cell)
        words = "" if point is None else " ".join(f"{name}={value:g}" for name, value in point._asdict().items())
        for seed in job.seeds:
            played = play(cell, seed, {**settings, **chosen})
            yield Row(
                job.kind, cell.data, cell.clients, cell.deal, cell.participants, cell.epsilon, cell.uploads, seed,
                *played, words, settings_text(settings), program,
            )  # fmt: skip


def play(cell: Cell, seed: int, settings: Mapping[str, Any]) -> Played:
    """One run; of all models only the last is measured, since most of the time would go into the others."""
    config = load(PRESET, {**QUICK, **cell.settings(seed), **settings})
    records = records_of(cell.data) if cell.data in GENERATED else None
    experiment = prepare_experiment(config, cells=records, known=_KNOWN)
    simulation = experiment.simulation
    outcome = simulate(replace(simulation, test=None))
    measured = measures_on(simulation.test, simulation.algorithm.objective.loss, outcome.weights, outcome.weights)
    if isinstance(simulation.tested.predicted, Classes):
        score, trivial = measured["test_accuracy_average"], measured["majority_accuracy"]
    else:
        score, trivial = measured["test_explained"], 0.0
    return Played(round(100 * score, 4), round(100 * trivial, 4), len(outcome.models))


def tune(cell: Cell, settings: Mapping[str, Any]) -> Point:
    """The best point of the grid by its mean validation score, found in three stages (`TUNING`)."""
    first, more = TRIAL_SEEDS
    scores: dict[Point, list[float]] = {}

    def tried(points: Iterable[Point], seeds: Sequence[int]) -> None:
        for point, seed in product(points, seeds):
            trial = {**settings, **point.settings(cell), "data.split": "validation"}
            score = play(cell, seed, trial).score
            scores.setdefault(point, []).append(score if isfinite(score) else -np.inf)

    def best(count: int) -> list[Point]:
        return sorted(scores, key=lambda point: -float(np.mean(scores[point])))[:count]

    tried([Point(*steps, UPLOADS[0]) for steps in product(STEP_SCALES, CLIP_NORMS)], first)
    tried([point._replace(uploads=uploads) for point in best(KEPT[0]) for uploads in UPLOADS[1:]], first)
    finalists = best(KEPT[1])
    tried(finalists, more)
    return max(finalists, key=lambda point: float(np.mean(scores[point])))
