"""The forms of a model by name, and models that have no such form."""

import csv
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fedspd import InputError
from fedspd.export import exported
from fedspd.problem.losses import SquaredHinge
from tests.support.models import made_model


@dataclass(frozen=True)
class Own:
    """A loss that a user brought: one score, two classes."""

    outputs = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(SquaredHinge(), name)


def test_a_model_with_a_loss_of_ones_own_is_exported_as_coefficients_alone() -> None:
    model = replace(made_model("squared hinge"), loss=Own())
    for form in ("sklearn", "onnx"):
        with pytest.raises(InputError, match=r"got Own.*export to csv"):
            exported(model, form)
    assert exported(model, "csv") == exported(made_model("squared hinge"), "csv")


def test_a_form_that_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="exported to sklearn, onnx, csv, got 'sklern'"):
        exported(made_model(), "sklern")


def test_only_a_model_whose_rows_are_shortened_has_a_note_about_it() -> None:
    content, notes = exported(made_model("a number"), "csv")
    assert "longer than 2 before" in notes[0]
    assert exported(made_model("a number", "min-max"), "csv").notes == []
    rows = [*csv.DictReader(content.decode().splitlines())]
    assert {row["class"] for row in rows} == {""}
    assert len(rows) == len(made_model("a number").recipe.schema.columns) + 1
