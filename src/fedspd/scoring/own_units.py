"""Weights of scaled rows as weights of features in their own units."""

import numpy as np

from fedspd.data import Numeric, Recipe, Schema
from fedspd.data.features.columns import Column, Product
from fedspd.data.features.scaling import Matrix, Vector


def own_units(recipe: Recipe, weights: Matrix) -> tuple[Matrix, Vector]:
    """Weights of the encoded features, and what is added, such that scores stay as they are for rows not shortened.

    A product is of two features on their public ranges, each a multiple of the feature in its own units and a
    constant: it is multiplied out, so that a part of its weight goes to the two features.
    """
    schema, (factor, shift) = recipe.schema, recipe.affine
    scaled = weights[: len(factor)]
    slopes, intercepts = factor[:, None] * scaled, shift @ scaled
    if recipe.bias:
        intercepts = intercepts + recipe.bias * weights[-1]
    places = _places(schema)
    for product in schema.products:
        one, other = product.first, product.second
        (up, off), (other_up, other_off) = _on_public_range(one), _on_public_range(other)
        first, second, own = places[one], places[other], places[product]
        weight = slopes[own].reshape(len(one.features), len(other.features), -1)
        slopes[first] += up * other_off * weight.sum(axis=1)
        slopes[second] += off * other_up * weight.sum(axis=0)
        intercepts = intercepts + off * other_off * weight.sum(axis=(0, 1))
        slopes[own] *= up * other_up
    return slopes, intercepts


def words(schema: Schema) -> tuple[str, ...]:
    """Names of the features; a logarithm is called one."""
    own = {
        column: (f"log(1 + {column.name})",) if isinstance(column, Numeric) and column.log else column.features
        for column in schema.inputs
    }
    products = (
        f"{one} × {other}" for product in schema.products for one in own[product.first] for other in own[product.second]
    )
    return (*(name for column in schema.inputs for name in own[column]), *products)


def _places(schema: Schema) -> dict[Column | Product, slice]:
    ends = np.cumsum([len(part.features) for part in schema.parts]).tolist()
    return {part: slice(end - len(part.features), end) for part, end in zip(schema.parts, ends, strict=True)}


def _on_public_range(column: Column) -> tuple[float, float]:
    """The factor and the shift that bring a feature there."""
    lower, upper = column.range
    return (2 / (upper - lower), -(upper + lower) / (upper - lower)) if column.is_number else (1.0, 0.0)
