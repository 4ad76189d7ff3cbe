"""What a model says about every record of a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedspd.data import Categorical, Numeric
from fedspd.data.describe.quality import Quality, quality_of_numbers, quality_of_texts
from fedspd.data.files.cells import Texts
from fedspd.data.files.reading import Columns, Paths, read_columns
from fedspd.data.tabular import cells_of
from fedspd.errors import InputError
from fedspd.scoring.model import Model

PREDICTION = "prediction"


@dataclass(frozen=True, eq=False)
class Predictions:
    """Of a table's records, in their order."""

    model: Model
    found: Columns
    kept: tuple[str, ...]  # columns of the table that are copied in front

    @property
    def header(self) -> tuple[str, ...]:
        """Names of the cells of a row."""
        is_softmax = self.model.probabilities(np.zeros((1, self.model.loss.outputs))) is not None
        classes = self.model.target.classes if is_softmax else ()
        return (*self.kept, PREDICTION, *(f"probability of {name}" for name in classes))

    @property
    def quality(self) -> Mapping[str, Quality]:
        """What is odd about the columns that were used."""
        return {
            column.name: quality_of_texts(self.found.texts[column.name], column.levels)
            if isinstance(column, Categorical)
            else quality_of_numbers(self.found.numbers[column.name], (column.lower, column.upper))
            for column in self.model.recipe.schema.inputs
        }

    def rows(self) -> Iterator[tuple]:
        """A row of cells for each record."""
        kept = [_words(self.found.texts[name]) for name in self.kept]
        for block, scores in self.model.blocks(cells_of(self.found, self.model.recipe.schema)):
            columns = [words[self.found.texts[name].codes[block]] for name, words in zip(self.kept, kept, strict=True)]
            columns.append(self.model.predictions(scores))
            probabilities = self.model.probabilities(scores)
            columns += [] if probabilities is None else [*probabilities.T]
            yield from zip(*(column.tolist() for column in columns), strict=True)


def predict_table(model: Model, paths: Paths, kept: Sequence[str] = ()) -> Predictions:
    """Read a table under the model's schema; its target is not needed.

    Args:
        model: what predicts.
        paths: CSV or Parquet files, or patterns of them.
        kept: columns of the table that are copied in front of the predictions.
    """
    schema, kept = model.recipe.schema, tuple(dict.fromkeys(kept))
    if PREDICTION in kept:
        raise InputError(f"a copied column must not be called {PREDICTION!r}, got one; rename it in the table.")
    numeric = [column.name for column in schema.inputs if isinstance(column, Numeric)]
    text = [column.name for column in schema.inputs if isinstance(column, Categorical)]
    found = read_columns(paths, numeric, [*dict.fromkeys((*text, *kept))], schema.missing_markers)
    found.refuse_unreadable(schema.most_unreadable)
    return Predictions(model, found, kept)


def _words(texts: Texts) -> np.ndarray:
    """Every level, and at the end what a missing one is written as."""
    return np.array([*texts.levels, ""], object)
