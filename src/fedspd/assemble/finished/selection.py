"""Choose between finished models by what they score on held-out records: one release for all of them, charged."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np

from fedspd.assemble.finished.evaluation import noised, open_held_out, require_simulated
from fedspd.assemble.records.held_out import Apart
from fedspd.errors import InputError
from fedspd.evaluate.intervals import QUANTILE
from fedspd.evaluate.scoring import score_query, score_sensitivity, scores_of
from fedspd.privacy.accounting import spent
from fedspd.privacy.ledger import Ledger
from fedspd.results import alone
from fedspd.results.evaluation import Measure
from fedspd.results.selection import Selection, named_together, read_selection, write_selection
from fedspd.scoring.model import Model, load_model
from fedspd.statement import file_anew
from fedspd.typing import SELECTION


def select(
    folders: Sequence[Path], ledger: Path | None = None, average: bool = False, again: bool = False
) -> Selection:
    """The model that scores best on records that all runs held out, with noise on every score.

    Args:
        folders: of at least two runs on one ledger, which held out the same records.
        ledger: that they were charged to; None: the one in the first folder.
        average: score the mean of the last rounds' models, in place of the last ones.
        again: choose anew, for another charge.
    """
    if len(folders) < 2 or len({folder.resolve() for folder in folders}) < len(folders):
        raise InputError(f"a choice needs at least two runs, each named once, got {len(folders)}; name others.")
    models = [load_model(folder, average) for folder in folders]
    for folder in folders:
        require_simulated(folder)
    with ExitStack() as held, Ledger(ledger or folders[0] / "ledger.sqlite") as opened:
        for folder in folders:
            held.enter_context(alone(folder))
        aparts = [open_held_out(folder, opened) for folder in folders]
        _check(folders, aparts, models)
        names = tuple(apart.run for apart in aparts)
        model = "average" if average else "last"
        kept = [known for folder in folders if (known := read_selection(folder)) and known.answers(names, model)]
        if kept and not again:
            return max(kept, key=lambda one: one.number)
        chosen = replace(_selected(folders, aparts, models, opened), model=model)
        write_selection(folders[0], chosen)
        for folder in folders:
            file_anew(folder, opened)
    return chosen


def _check(folders: Sequence[Path], aparts: Sequence[Apart], models: Sequence[Model]) -> None:
    """Refuse runs that cannot be held against each other, before anything is charged."""
    first = aparts[0]
    for folder, apart, model in zip(folders, aparts, models, strict=True):
        if apart.digest != first.digest or apart.names != first.names:
            raise InputError(
                f"the runs must have held out the same records, got others in {folder} than in {folders[0]}; make all "
                "of them on one ledger, with one evaluation.held_out and one deal (partition.seed)."
            )
        if model.target != models[0].target:
            raise InputError(f"the runs must predict the same, got another target in {folder}; name others.")


def _selected(folders: Sequence[Path], aparts: Sequence[Apart], models: Sequence[Model], ledger: Ledger) -> Selection:
    apart, sensitivity = aparts[0], score_sensitivity(len(models))
    number = _charge(aparts, ledger)
    scores = np.stack([scores_of(model, one.table) for model, one in zip(models, aparts, strict=True)], axis=1)
    scales = apart.plan.evaluation_scale(sensitivity)
    totals = noised(score_query(scores, apart.weights, apart.places, len(apart.names)), scales)
    noise = sqrt(float(np.sum(scales**2)))
    named = zip(map(str, folders), (totals / apart.units).tolist(), strict=True)
    events = {group.evaluation for group in apart.plan.groups if group.evaluation is not None}
    return Selection(
        runs=tuple(map(str, folders)),
        names=tuple(one.run for one in aparts),
        chosen=int(np.argmax(totals)),
        scores=tuple(_score(name, mean, noise, apart.units) for name, mean in named),
        records=apart.units,
        sensitivity=sensitivity,
        noise_multiplier=max(event.noise_multiplier for event in events),
        noise=noise,
        epsilon=max(spent([(event, 1)], apart.plan.delta, apart.plan.accountant).epsilon for event in events),  # pyright: ignore[reportArgumentType]
        delta=apart.plan.delta,
        number=number,
    )


def _score(name: str, mean: float, noise: float, units: int) -> Measure:
    """A record's score varies at most like a coin of the same mean."""
    inside = min(max(mean, 0.0), 1.0)
    half = QUANTILE * sqrt(noise**2 + units * inside * (1 - inside)) / units
    low, high = np.clip([mean - half, mean + half], 0.0, 1.0).tolist()  # noise may take all of it out of what can be
    return Measure(name, inside, low, high)


def _charge(aparts: Sequence[Apart], ledger: Ledger) -> int:
    """One event for each client, named by all candidates, so that no choice is made twice by one charge; its number."""
    apart = aparts[0]
    run = named_together(tuple(one.run for one in aparts))
    number = 1 + max((c.times for c in ledger.charges() if (c.run, c.mechanism) == (run, SELECTION)), default=0)
    apart.pay(ledger, run, number, SELECTION)
    return number
