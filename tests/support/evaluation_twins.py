"""Broken twins of the private evaluation, and the checks that find them."""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedspd.assemble import Run, run
from fedspd.assemble.finished.evaluation import Asked, concluded, evaluate_run, measure, noised
from fedspd.data import Shards, Table, assign
from fedspd.data.holding.held_out import HeldOut, hold_out_by_key
from fedspd.evaluate.counting import Counting
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.privacy.ledger.key import EVALUATION
from fedspd.problem import make_loss
from fedspd.results.evaluation import Evaluation
from fedspd.scoring.model import Model
from fedspd.typing import Query
from tests.support.held_out import COUNTING, KEY, Cutter, broken_sides, small_table, worst_move

Check = tuple[Callable[[], bool], Callable[[], bool]]


def by_records(table: Table, dealt: Shards, share: float, key: bytes) -> tuple[Shards, HeldOut]:
    """Forgets whom records are about."""
    return hold_out_by_key(replace(table, persons=None), dealt, share, key)


def by_threshold(table: Table, dealt: Shards, share: float, key: bytes) -> tuple[Shards, HeldOut]:
    """Everybody below a threshold: how many are trained on then depends on who they are."""
    rows = np.column_stack([dealt.features, dealt.labels])
    held = np.array([_hash(row, key) < share for row in rows])
    held[dealt.offsets[:-1]] = False  # leaves everybody a record
    owners = np.repeat(np.arange(dealt.clients), dealt.sizes)
    left = replace(
        dealt, features=dealt.features[~held], labels=dealt.labels[~held], order=None,
        offsets=np.concatenate([[0], np.cumsum(np.bincount(owners[~held], minlength=dealt.clients))]),
    )  # fmt: skip
    assert dealt.order is not None
    return left, HeldOut(dealt.order[held], owners[held], np.ones(held.sum()), int(held.sum()), "")


def without_key(table: Table, dealt: Shards, share: float, key: bytes) -> tuple[Shards, HeldOut]:
    """Anybody can tell who is held out."""
    return hold_out_by_key(table, dealt, share, bytes(32))


def drawn_anew(table: Table, dealt: Shards, share: float, key: bytes) -> tuple[Shards, HeldOut]:
    """Every run holds out others."""
    return hold_out_by_key(table, dealt, share, secrets.token_bytes(32))


class SensitivityOne(Counting):
    """As if a record that moves changed one count."""

    def sensitivity(self, relation: str) -> float:
        return 1.0


def someone_is_on_both_sides(cut: Cutter) -> bool:
    """Whether a person has records that are trained on and records that are held out."""
    table = small_table(np.random.default_rng(0), 60, persons=True)
    assert table.persons is not None
    _, held = cut(table, assign(table, table.persons.codes % 3, 3), 0.4, KEY)
    left = np.setdiff1d(np.arange(60), held.rows)
    return bool({*table.persons.codes[left]} & {*table.persons.codes[held.rows]})


def the_key_decides_nothing(cut: Cutter) -> bool:
    """Whether another key holds out the same records."""
    one, other = (_digest(cut, key) for key in (KEY, b"x" * 32))
    return one == other


def later_runs_differ(cut: Cutter) -> bool:
    """Whether a second run with the same key holds out other records."""
    return _digest(cut, KEY) != _digest(cut, KEY)


def counts_are_bare(add: Callable[[Query, np.ndarray], np.ndarray]) -> bool:
    """Whether what stands in the report are numbers of records."""
    apart, model = _trained().held_out, _model(_trained())
    assert apart is not None
    counting = Counting(("<=50K", ">50K"), 4)
    query = counting.query(np.arange(apart.units)[:, None] % 8, apart.weights, apart.places, len(apart.names))
    scales = apart.plan.evaluation_scale(counting.sensitivity("replace-one"))
    found = concluded(apart.plan, counting, add(query, scales), scales, Asked(bins=4), model, 1, apart.units, False)
    counts = np.array(found.counts[0])
    return bool((counts == np.round(counts)).all())


def more_releases_than_charges(ask: Callable[[Run, Model, bool], Evaluation]) -> bool:
    """Ask twice: were there more different answers than charges?"""
    with TemporaryDirectory() as folder:
        create_ledger(path := Path(folder) / "l.sqlite")
        with Ledger(path) as ledger:
            finished = run("proved", SETTINGS, ledger=ledger, ledger_epsilon=20.0)
            answers = {ask(finished, _model(finished), again).counts for again in (False, True)}
            paid = max(charged.times for charged in ledger.charges() if charged.mechanism == EVALUATION)
        return len(answers) > paid


def asked(finished: Run, model: Model, again: bool) -> Evaluation:
    return evaluate_run(finished.held_out, model, Asked(bins=4), again)


def asked_again_for_free(finished: Run, model: Model, again: bool) -> Evaluation:
    """Fresh noise without a fresh charge."""
    assert finished.held_out is not None
    return measure(finished.held_out, model, Asked(bins=4), None) if again else asked(finished, model, again)


SETTINGS: dict[str, Any] = {
    "evaluation.held_out": 0.1, "partition.clients": 2, "run.participants": 2, "run.rounds": 1, "run.seed": 1,
    "metrics.criterion": False,
}  # fmt: skip


@lru_cache
def _trained() -> Run:
    return run("proved", SETTINGS)


def _model(finished: Run) -> Model:
    return Model(finished.weights, finished.recipe, make_loss(None, finished.recipe.schema.target, 0.5))


def _digest(cut: Cutter, key: bytes) -> str:
    table = small_table(np.random.default_rng(0), 60)
    return cut(table, assign(table, np.arange(60) % 3, 3), 0.4, key)[1].digest


def _hash(row: np.ndarray, key: bytes) -> float:
    return int.from_bytes(hashlib.blake2b(row.tobytes(), key=key, digest_size=4).digest(), "big") / 2**32


CHECKS: dict[str, Check] = {
    "a held-out person is trained on": (
        lambda: someone_is_on_both_sides(hold_out_by_key),
        lambda: someone_is_on_both_sides(by_records),
    ),
    "who is held out decides how many are trained on": (
        lambda: broken_sides(hold_out_by_key, persons=False),
        lambda: broken_sides(by_threshold, persons=False),
    ),
    "records are held out by a hash without a key": (
        lambda: the_key_decides_nothing(hold_out_by_key),
        lambda: the_key_decides_nothing(without_key),
    ),
    "later runs hold out other records": (
        lambda: later_runs_differ(hold_out_by_key),
        lambda: later_runs_differ(drawn_anew),
    ),
    "counts get noise for a sensitivity of 1": (
        lambda: worst_move(COUNTING) > 1 + 1e-9,
        lambda: worst_move(SensitivityOne(COUNTING.classes, COUNTING.bins, COUNTING.groups)) > 1 + 1e-9,
    ),
    "counts are reported without noise": (
        lambda: counts_are_bare(noised),
        lambda: counts_are_bare(lambda query, scales: np.asarray(query.value).sum(axis=0)),
    ),
    "a model is measured twice for one charge": (
        lambda: more_releases_than_charges(asked),
        lambda: more_releases_than_charges(asked_again_for_free),
    ),
}
