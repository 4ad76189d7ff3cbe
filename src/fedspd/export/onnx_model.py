"""A model as an ONNX graph: one input for each column, predictions and probabilities as outputs."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from fedspd.data import Categorical
from fedspd.errors import InputError
from fedspd.export.onnx_columns import encoded
from fedspd.export.onnx_nodes import Nodes
from fedspd.problem import Huber, LeastSquares, Poisson, Softmax, SquaredHinge
from fedspd.problem.regression import LEAST_SHARE
from fedspd.scoring.model import Model
from fedspd.target import Number

OPERATORS, LOOKUPS, FORMAT = 18, 3, 9  # versions that runtimes since the spring of 2023 know
PREDICTION, PROBABILITIES = "prediction", "probabilities"


def to_onnx(model: Model) -> onnx.ModelProto:
    """The model as a checked graph.

    Every column is an input of its name with shape (records, 1): a double, not-a-number where it is missing, or a
    string, without spaces around it.
    """
    nodes, schema = Nodes(), model.recipe.schema
    for column in schema.inputs:
        if column.name in (PREDICTION, PROBABILITIES):
            raise InputError(
                f"inputs of an ONNX graph must not be called like its outputs, got a column {column.name!r}; export to "
                "sklearn."
            )
    outputs = _outputs(nodes, model, _scores(nodes, model, encoded(nodes, schema)))
    graph = helper.make_graph(
        nodes.nodes, "fedspd",
        [
            helper.make_tensor_value_info(column.name, _type(isinstance(column, Categorical)), ["records", 1])
            for column in schema.inputs
        ],
        outputs, nodes.constants,
    )  # fmt: skip
    versions = [helper.make_opsetid("", OPERATORS), helper.make_opsetid("ai.onnx.ml", LOOKUPS)]
    made = helper.make_model(graph, opset_imports=versions, ir_version=FORMAT, producer_name="fedspd")
    onnx.checker.check_model(made, full_check=True)
    return made


def _type(is_text: bool) -> int:
    return TensorProto.STRING if is_text else TensorProto.DOUBLE


def _scores(nodes: Nodes, model: Model, features: str) -> str:
    recipe, weights = model.recipe, model.weights
    factor, shift = recipe.affine
    rows = nodes.add("Add", nodes.add("Mul", features, factor[None]), shift[None])
    bias = recipe.bias * weights[-1:] if recipe.bias else np.zeros((1, weights.shape[1]))
    own = weights[: len(factor)]
    if recipe.row_norm is None:
        return nodes.add("Add", nodes.add("MatMul", rows, own), bias)
    if recipe.base == "unit":  # a bias is set apart from the bound
        factor = _shortening(nodes, rows, 0.0, float(np.sqrt(recipe.row_norm**2 - recipe.bias**2)))
        return nodes.add("Add", nodes.add("MatMul", nodes.add("Mul", rows, factor), own), bias)
    factor = _shortening(nodes, rows, recipe.bias, recipe.row_norm)
    return nodes.add("Mul", nodes.add("Add", nodes.add("MatMul", rows, own), bias), factor)


def _shortening(nodes: Nodes, rows: str, bias: float, norm: float) -> str:
    squares = nodes.add("ReduceSum", nodes.add("Mul", rows, rows), np.array([1]))
    lengths = nodes.add("Sqrt", nodes.add("Add", squares, bias**2))
    return nodes.add("Div", norm, nodes.add("Max", lengths, norm))


def _outputs(nodes: Nodes, model: Model, scores: str) -> list[onnx.ValueInfoProto]:
    classes, target = model.target.classes, model.target
    made = [helper.make_tensor_value_info(PREDICTION, _type(bool(classes)), ["records"])]
    match model.loss:
        case Softmax():
            nodes.add("Softmax", scores, output=PROBABILITIES, axis=1)
            made.append(helper.make_tensor_value_info(PROBABILITIES, TensorProto.DOUBLE, ["records", len(classes)]))
            _name(nodes, nodes.add("ArgMax", scores, axis=1, keepdims=0), classes)
        case SquaredHinge():
            _name(nodes, _above(nodes, scores, 0.0), classes)
        case LeastSquares() if classes:
            _name(nodes, _above(nodes, scores, 0.5), classes)
        case LeastSquares() | Huber() if isinstance(target, Number):
            half = (target.upper - target.lower) / 2
            moved = nodes.add("Add", nodes.add("Mul", _one(nodes, scores), half), target.lower + half)
            nodes.add("Max", nodes.add("Min", moved, target.upper), target.lower, output=PREDICTION)
        case Poisson(most=most, center=center):
            held = nodes.add("Min", _one(nodes, scores), float(np.log(most / center)))
            rate = nodes.add("Mul", nodes.add("Exp", held), center)
            nodes.add("Max", nodes.add("Min", rate, most), LEAST_SHARE * center, output=PREDICTION)
        case _:
            raise InputError(
                f"an ONNX graph is made for fedspd's own losses, got {type(model.loss).__name__}; export to csv."
            )
    return made


def _one(nodes: Nodes, scores: str) -> str:
    return nodes.add("Squeeze", scores, np.array([1]))


def _above(nodes: Nodes, scores: str, bound: float) -> str:
    return nodes.add("Cast", nodes.add("Greater", _one(nodes, scores), bound), to=TensorProto.INT64)


def _name(nodes: Nodes, places: str, classes: tuple[str, ...]) -> None:
    nodes.add("Gather", np.asarray(classes), places, output=PREDICTION, axis=0)
