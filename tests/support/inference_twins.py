"""Broken twins of inference and of choices between models, and the checks that find them."""

from collections.abc import Callable
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedspd.assemble import Run, run
from fedspd.assemble.finished.evaluation import noised
from fedspd.assemble.finished.inference import INFERENCE, infer, infer_run
from fedspd.evaluate.newton import FROM_ZERO, SHARES, Step
from fedspd.evaluate.scoring import score_query
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.problem import make_loss
from fedspd.results.inference import Inference
from fedspd.scoring.model import Model
from fedspd.typing import Query
from tests.support.inference import claimed, worst_move, worst_move_of_scores

Check = tuple[Callable[[], bool], Callable[[], bool]]
SETTINGS: dict[str, Any] = {
    "evaluation.held_out": 0.4, "evaluation.share": 0.4, "partition.clients": 2, "run.participants": 2, "run.rounds": 1,
    "run.seed": 1, "metrics.criterion": False, "privacy.epsilon": 6.0,
}  # fmt: skip


def person_moves_too_far(weigh: Callable[[int], np.ndarray]) -> bool:
    """Whether a person with twenty rows moves sums further than a record could."""
    step, rows = Step("number", 1.0, np.zeros(2)), np.tile([1.0, 0.0], (20, 1))
    moved = np.asarray(step.query(rows, np.ones(20), weigh(20), np.zeros(20, int), 1).value)
    return bool(np.linalg.norm(moved) > step.sensitivity("zero-out"))


def more_than_one_charge(shares: tuple[float, ...]) -> bool:
    """Whether Gaussian steps with noise over the root of these shares cost more than one with the whole noise."""
    return sum(shares) > 1.0


def more_answers_than_charges(ask: Callable[[Run, Model], Inference]) -> bool:
    """Ask twice: were there more different answers than charges?"""
    with TemporaryDirectory() as folder:
        create_ledger(path := Path(folder) / "l.sqlite")
        with Ledger(path) as ledger:
            finished = run("proved", SETTINGS, ledger=ledger, ledger_epsilon=30.0)
            loss = make_loss(None, finished.recipe.schema.target, 0.5)
            model = Model(finished.average, finished.recipe, loss)
            answers = {ask(finished, model).start for _ in range(2)}
            ledger.catch_up()
            paid = max((charged.times for charged in ledger.charges() if charged.mechanism == INFERENCE), default=0)
        return len(answers) > paid


def asked(finished: Run, model: Model) -> Inference:
    return infer_run(finished.held_out, model, ("sex",))


def asked_for_free(finished: Run, model: Model) -> Inference:
    """Fresh noise without a charge."""
    assert finished.held_out is not None
    return infer(finished.held_out, model, None, None, ("sex",))


def scores_are_bare(add: Callable[[Query, np.ndarray], np.ndarray]) -> bool:
    """Whether numbers of right predictions leave as they are."""
    query = score_query(np.ones((6, 2)), np.ones(6), np.arange(6) % 2, 2)
    totals = add(query, np.full(2, 3.0))
    return bool((totals == np.round(totals)).all())


CHECKS: dict[str, Check] = {
    "sums of a Newton step get noise that lost a factor of the root of two": (
        lambda: worst_move("classes", "replace-one") > 1,
        lambda: worst_move("classes", "replace-one", claimed("classes") / sqrt(2)) > 1,
    ),
    "sums of a Newton step get noise for their gradient alone": (
        lambda: worst_move("number", "replace-one") > 1,
        lambda: worst_move("number", "replace-one", 2 * sqrt(SHARES["number"][0])) > 1,
    ),
    "every row of a person weighs one in a Newton step": (
        lambda: person_moves_too_far(lambda rows: np.full(rows, np.floor(2**30 / rows) / 2**30)),
        lambda: person_moves_too_far(np.ones),
    ),
    "each Newton step of one charge gets the noise of all of them": (
        lambda: more_than_one_charge(FROM_ZERO),
        lambda: more_than_one_charge((1.0,) * 4),
    ),
    "coefficients are released twice for one charge": (
        lambda: more_answers_than_charges(asked),
        lambda: more_answers_than_charges(asked_for_free),
    ),
    "scores of four models get the noise of one": (
        lambda: worst_move_of_scores(4) > 1 + 1e-9,
        lambda: worst_move_of_scores(4, 1.0) > 1 + 1e-9,
    ),
    "scores are reported without noise": (
        lambda: scores_are_bare(noised),
        lambda: scores_are_bare(lambda query, scales: np.asarray(query.value).sum(axis=0)),
    ),
}
