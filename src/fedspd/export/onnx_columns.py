"""Declared columns as nodes of an ONNX graph: what `fedspd.data.encode` does, in double precision."""

from math import factorial

import numpy as np

from fedspd.data.features.columns import Categorical, Column, Numeric, Product
from fedspd.data.features.splines import DEGREE, spline_knots
from fedspd.data.files.cells import MISSING
from fedspd.data.schema import Schema
from fedspd.export.onnx_nodes import Nodes


def encoded(nodes: Nodes, schema: Schema) -> str:
    """The features of all columns, which are inputs of the graph by their names."""
    markers = frozenset((*MISSING, *schema.missing_markers))
    known = {
        column: _levels(nodes, column.name, column, markers)
        if isinstance(column, Categorical)
        else _number(nodes, column.name, column)
        for column in schema.inputs
    }
    products = [_product(nodes, known, product) for product in schema.products]
    return nodes.add("Concat", *known.values(), *products, axis=1)


def _number(nodes: Nodes, cells: str, column: Numeric) -> str:
    absent = nodes.add("Or", nodes.add("IsNaN", cells), nodes.add("IsInf", cells))
    filled = nodes.add("Where", absent, column.lower if column.missing is None else column.missing, cells)
    values = nodes.add("Max", nodes.add("Min", filled, column.upper), column.lower)
    if column.spline is not None:
        return _spline(nodes, values, column)
    if column.pieces:
        return _bins(nodes, values, absent, column)
    return nodes.add("Log", nodes.add("Add", values, 1.0)) if column.log else values


def _bins(nodes: Nodes, values: str, absent: str, column: Numeric) -> str:
    parts = [_between(nodes, values, column.thresholds)]
    if column.zero:
        is_zero = nodes.as_double(nodes.add("Equal", values, 0.0))
        parts = [is_zero, nodes.add("Mul", parts[0], nodes.add("Sub", 1.0, is_zero))]
    if column.missing is None:
        is_absent = nodes.as_double(absent)
        others = nodes.add("Concat", *parts, axis=1)
        parts = [is_absent, nodes.add("Mul", others, nodes.add("Sub", 1.0, is_absent))]
    return nodes.add("Concat", *parts, axis=1)


def _between(nodes: Nodes, values: str, thresholds: np.ndarray) -> str:
    """One for the piece that a value is in, zero for the others."""
    beyond = nodes.as_double(nodes.add("GreaterOrEqual", values, thresholds[None, :]))
    always = nodes.add("Add", nodes.add("Mul", values, 0.0), 1.0)
    never = nodes.add("Mul", values, 0.0)
    left = nodes.add("Concat", always, beyond, axis=1)
    return nodes.add("Sub", left, nodes.add("Concat", beyond, never, axis=1))


def _spline(nodes: Nodes, values: str, column: Numeric) -> str:
    """Piece by piece a polynomial of the distance to the piece's beginning."""
    from scipy.interpolate import BSpline

    assert column.spline is not None
    knots = spline_knots(column.spline)
    inner, functions = knots[DEGREE:-DEGREE], BSpline(knots, np.eye(column.spline), DEGREE)
    pieces = [functions(inner[:-1], power) / factorial(power) for power in range(DEGREE, -1, -1)]
    within = nodes.add("Div", nodes.add("Sub", values, column.lower), column.upper - column.lower)
    piece = _between(nodes, within, inner[1:-1])
    distance = nodes.add("Sub", within, nodes.add("MatMul", piece, inner[:-1, None]))
    total = nodes.add("MatMul", piece, pieces[0])
    for coefficients in pieces[1:]:
        total = nodes.add("Add", nodes.add("Mul", total, distance), nodes.add("MatMul", piece, coefficients))
    return total


def _levels(nodes: Nodes, cells: str, column: Categorical, markers: frozenset[str]) -> str:
    """The features of every level, looked up by the level's place."""
    rows = np.zeros((len(column.levels) + 1, len(column.features)))
    column.write(np.array([*range(len(column.levels)), -1]), rows)
    levels = [(level, place) for place, level in enumerate(column.levels) if level not in markers]
    places = nodes.add(
        "LabelEncoder", cells, domain="ai.onnx.ml", default_int64=len(column.levels),
        keys_strings=[level for level, _ in levels], values_int64s=[place for _, place in levels],
    )  # fmt: skip
    return nodes.add("Gather", rows, nodes.add("Squeeze", places, np.array([1])), axis=0)


def _product(nodes: Nodes, known: dict[Column, str], product: Product) -> str:
    one, other = (_on_public_range(nodes, known[column], column) for column in (product.first, product.second))
    pairs = nodes.add("Mul", nodes.add("Unsqueeze", one, np.array([2])), nodes.add("Unsqueeze", other, np.array([1])))
    return nodes.add("Reshape", pairs, np.array([-1, len(product.features)]))


def _on_public_range(nodes: Nodes, features: str, column: Column) -> str:
    if not column.is_number:
        return features
    lower, upper = column.range
    shifted = nodes.add("Mul", nodes.add("Sub", features, lower), 2.0)
    return nodes.add("Sub", nodes.add("Div", shifted, upper - lower), 1.0)
