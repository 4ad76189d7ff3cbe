"""A trained model: what it says about records that it has never seen."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np

from fedspd.data import Recipe, encode
from fedspd.data.features.recipe import Base
from fedspd.data.features.scaling import Matrix
from fedspd.errors import InputError
from fedspd.problem import LOSSES, Huber, LeastSquares, Loss, Poisson, Softmax, make_loss
from fedspd.reading import nearest
from fedspd.results import BROKEN, read_model
from fedspd.results.summary import FAR
from fedspd.scoring.own_units import own_units, words
from fedspd.target import Classes, Number, Target

NEEDED = ("weights", "average", "loss", "threshold", "schema", "base", "bias")
BLOCK = 1 << 11  # records that are encoded at a time: few enough to stay near the processor
INTERCEPT = "(intercept)"
SURROGATES = range(0xD800, 0xE000)  # halves of characters


class Coefficient(NamedTuple):
    """What a feature adds to the score of a class, or to the number that is predicted, per unit of its own."""

    feature: str
    category: str  # the class; empty for a number or a count
    coefficient: float


@dataclass(frozen=True, eq=False)
class Model:
    """Weights, how records become the rows they are multiplied with, and the loss that gives scores their meaning."""

    weights: Matrix
    recipe: Recipe
    loss: Loss

    @property
    def target(self) -> Target:
        """What is predicted."""
        return self.recipe.schema.target

    def scores(self, encoded: Matrix) -> Matrix:
        """Scores of records that were encoded under the schema."""
        return self.recipe.rows(encoded) @ self.weights

    def blocks(self, cells: Mapping[str, np.ndarray]) -> Iterator[tuple[slice, Matrix]]:
        """Which records, and their scores, from cells as `encode` takes them; all of them, a block after another."""
        records = len(next(iter(cells.values())))
        for start in range(0, records, BLOCK):
            block = slice(start, min(start + BLOCK, records))
            encoded = encode({name: column[block] for name, column in cells.items()}, self.recipe.schema)
            yield block, self.scores(encoded)

    def probabilities(self, scores: Matrix) -> Matrix | None:
        """Of each class; None where the loss gives scores no such meaning."""
        if not isinstance(self.loss, Softmax):
            return None
        unnormalized = np.exp(scores - scores.max(axis=1, keepdims=True))
        return unnormalized / unnormalized.sum(axis=1, keepdims=True)

    def predictions(self, scores: Matrix) -> np.ndarray:
        """In the target's own terms: names of classes, numbers within their bounds, expected counts."""
        predicted = np.asarray(self.loss.predict(scores))
        target = self.target
        if isinstance(target, Classes):
            return np.asarray(target.classes)[predicted.astype(int)]
        return target.values(predicted)

    def coefficients(self) -> list[Coefficient]:
        """Per unit of every feature, as if no row were shortened; the intercept comes first.

        Scores of classes: natural logarithms of odds for softmax. A number: in its own units, before it is moved onto
        its bounds. A count: natural logarithms of its rate.
        """
        slopes, intercepts = own_units(self.recipe, self.weights)
        if isinstance(self.target, Number) and isinstance(self.loss, LeastSquares | Huber):
            half = (self.target.upper - self.target.lower) / 2
            slopes, intercepts = slopes * half, intercepts * half + (self.target.lower + half)
        elif isinstance(self.loss, Poisson):
            intercepts = intercepts + np.log(self.loss.center)
        classes = self.target.classes or ("",)
        scored = classes if len(classes) == self.loss.outputs else classes[-1:]
        table = zip((INTERCEPT, *words(self.recipe.schema)), (intercepts, *slopes), strict=True)
        return [
            Coefficient(feature, category, float(value))
            for feature, row in table
            for category, value in zip(scored, row, strict=True)
        ]


def load_model(folder: str | Path, average: bool = False) -> Model:
    """The model of a run folder: after the last round, or the average of the last rounds.

    Raises:
        InputError: the folder holds no model, or one that is damaged or of another version.
    """
    arrays = _arrays(Path(folder))
    name = str(arrays["loss"])
    if name not in LOSSES:
        raise InputError(
            f"the loss of the model in {folder} must be known, got {name!r}; {nearest(name, LOSSES)} One of your own "
            "is made known by fedspd.assemble.register_loss."
        )
    try:
        recipe = Recipe.of(arrays)
        loss = make_loss(name, recipe.schema.target, float(arrays["threshold"]))
        weights = np.asarray(arrays["average" if average else "weights"], float)
        fits = weights.shape == (len(recipe.columns), loss.outputs) and recipe.base in get_args(Base)
        moments = [known for known in (recipe.mean, recipe.deviation) if known is not None]
        fits &= all(known.shape == (len(recipe.schema.columns),) for known in moments)
    except (ValueError, TypeError, AttributeError) as error:
        raise _damaged(folder) from error
    if not fits:
        raise _damaged(folder)
    with np.errstate(over="ignore"):
        length = float(np.linalg.norm(weights))
    if not length <= FAR:
        raise InputError(
            f"the weights of a model must be finite, and at most {FAR:g} long together, got others in {folder}: its "
            "run diverged; make it again with smaller steps."
        )
    return Model(weights, recipe, loss)


def _arrays(folder: Path) -> dict[str, np.ndarray]:
    try:
        arrays = read_model(folder)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"expected the folder of a finished run, got {str(folder)!r}, which holds no model.npz; name another."
        ) from None
    except InputError:  # which is a ValueError, and says what is wrong
        raise
    except BROKEN as error:
        raise _damaged(folder) from error
    missing = [name for name in NEEDED if name not in arrays]
    if missing:
        raise InputError(
            f"the model in {folder} must be of this version of fedspd, got one without {', '.join(missing)}; make the "
            "run again."
        )
    if not all(_is_sound(array) for array in arrays.values()):
        raise _damaged(folder)
    return arrays


def _is_sound(array: object) -> bool:
    """Whether it is an array whose characters exist: NumPy makes text of any numbers, and Python fails on it later."""
    if not isinstance(array, np.ndarray):
        return False
    if array.dtype.kind != "U" or not array.dtype.itemsize:
        return True
    points = np.ravel(array).astype(array.dtype.newbyteorder("=")).view(np.uint32)
    return bool(((points < SURROGATES.start) | ((points >= SURROGATES.stop) & (points <= sys.maxunicode))).all())


def _damaged(folder: str | Path) -> InputError:
    return InputError(
        f"the model in {folder} must be as fedspd writes it, got a damaged file; copy it again, or make the run again."
    )
