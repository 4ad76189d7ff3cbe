"""A graph of ONNX in the making: nodes and constants, with names that nobody has to think of."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OWN = "fedspd: "  # begins names that no column is likely to have


class Nodes:
    """Collects nodes; every function takes names of values, or arrays, and gives the name of a new value."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        """Numbers as double precision, whole ones and texts as they are."""
        array = np.asarray(value)
        array = array.astype(np.int64) if array.dtype.kind == "i" else array
        array = array.astype(object) if array.dtype.kind == "U" else array
        name = f"{OWN}constant {len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """A node of one output."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        output = output or f"{OWN}value {len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output

    def as_double(self, value: str) -> str:
        """True and false as 1 and 0."""
        return self.add("Cast", value, to=TensorProto.DOUBLE)
