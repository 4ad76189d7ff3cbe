"""Tables of counts: what one record can move, and that they say what a model does."""

from math import sqrt

import numpy as np
import pytest

from fedspd.assemble import run
from fedspd.data import SOURCES, Table
from fedspd.errors import InputError
from fedspd.evaluate.counting import Counting, counting_for, places_of
from fedspd.problem import make_loss
from fedspd.scoring.model import Model
from tests.support.held_out import COUNTING, worst_move

QUICK = {"run.rounds": 2, "metrics.criterion": False, "run.seed": 3}


def trained(name: str, **settings: object) -> tuple[Model, Table]:
    """A model that was hardly trained, and encoded test records."""
    finished = run("proved", {"data.name": name, "partition.clients": 5, "run.participants": 5, **QUICK, **settings})
    problem, schema = finished.config.problem, finished.recipe.schema
    model = Model(finished.weights, finished.recipe, make_loss(problem.loss, schema.target, problem.threshold))
    cells = SOURCES[name].read(finished.config.data.source).under(schema)
    assert cells.test is not None
    return model, cells.test


def test_no_neighbor_moves_the_counts_further_than_the_sensitivity_and_one_moves_them_so_far() -> None:
    assert worst_move(COUNTING) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("classes", "tables", "moved"), [(("a", "b"), 1, sqrt(2)), (("a", "b", "c"), 2, 2.0), ((), 1, sqrt(2))]
)
def test_a_record_that_leaves_all_of_its_cells_attains_the_sensitivity(
    classes: tuple[str, ...], tables: int, moved: float
) -> None:
    counting = Counting(classes, 4)
    assert len(counting.shapes) == tables
    one, other = (
        np.asarray(counting.query(np.full((1, tables), place), np.ones(1), np.zeros(1, int), 1).value)
        for place in (0, 1)
    )
    assert np.linalg.norm(one - other) == pytest.approx(counting.sensitivity("replace-one")) == pytest.approx(moved)
    assert np.linalg.norm(one) == pytest.approx(counting.sensitivity("zero-out"))


def test_counts_of_two_classes_add_up_to_the_confusion_of_the_model() -> None:
    model, test = trained("adult")
    counting = counting_for(model, 8, "sex")
    places = places_of(model, test, counting, "sex")
    counts = np.asarray(counting.query(places, np.ones(len(test)), np.zeros(len(test), int), 1).value)[0]
    (table,) = counting.split(counts)
    assert table.shape == (3, 2, 8)  # two levels and none
    predicted = np.asarray(model.loss.predict(model.scores(test.features))).astype(int)
    correct = table[:, 0, :4].sum() + table[:, 1, 4:].sum()
    assert correct == (predicted == test.labels).sum()
    assert table[0].sum() == (test.cells["sex"] == 0).sum()


def test_counts_of_many_classes_are_a_confusion_and_how_sure_the_model_was() -> None:
    model, test = trained("digits")
    counting = counting_for(model, 6, None)
    places = places_of(model, test, counting, None)
    counts = np.asarray(counting.query(places, np.ones(len(test)), np.zeros(len(test), int), 1).value)[0]
    confusion, sure = counting.split(counts)
    predicted = np.asarray(model.loss.predict(model.scores(test.features)))
    assert np.trace(confusion[0]) == (predicted == test.labels).sum() == sure[0, 1].sum()
    assert confusion.sum() == sure.sum() == len(test)


@pytest.mark.parametrize("name", ["diabetes", "visits"])
def test_residuals_fall_into_bins_that_are_finer_in_the_middle(name: str) -> None:
    model, test = trained(name)
    counting = counting_for(model, 6, None)
    assert counting.edges.tolist() == [-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0]
    places = places_of(model, test, counting, None)
    assert places.shape == (len(test), 1)
    assert places.min() >= 0
    assert places.max() < 6


def test_a_score_on_an_edge_is_in_the_lower_bin_as_a_tie_goes_to_the_first_class() -> None:
    assert Counting(("a", "b"), 4).binned(np.array([0.0, 0.25, 0.5, 0.5 + 1e-12, 1.0])).tolist() == [0, 0, 1, 2, 3]


def test_odd_bins_too_many_and_columns_without_levels_are_refused() -> None:
    for bins in (5, 0, 1002):
        with pytest.raises(InputError, match=f"bins must be an even number from 2 to 1000, got {bins}"):
            Counting(("a", "b"), bins)
    model, _ = trained("adult")
    with pytest.raises(InputError, match="a subgroup column must be a declared column of levels, got 'age'"):
        counting_for(model, 4, "age")
