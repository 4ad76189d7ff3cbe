"""The forms by name, each as the content of a file and what its reader should know."""

import io
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

from fedspd.errors import InputError
from fedspd.escaping import write_csv
from fedspd.reading import nearest
from fedspd.scoring.model import Coefficient, Model


class Exported(NamedTuple):
    """The content of a file, and sentences for whoever uses it."""

    content: bytes
    notes: list[str]


def exported(model: Model, form: str) -> Exported:
    """The model in a form: sklearn, onnx or csv."""
    if form not in FORMS:
        raise InputError(f"a model is exported to {', '.join(FORMS)}, got {form!r}; {nearest(form, FORMS)}")
    return FORMS[form](model)


def _sklearn(model: Model) -> Exported:
    from fedspd.export.pipeline import sklearn_bytes

    note = "Load it with joblib.load, where fedspd is installed. Loading a pickle runs code: load only files you trust."
    return Exported(sklearn_bytes(model), [note])


def _onnx(model: Model) -> Exported:
    if find_spec("onnx") is None:
        raise InputError(
            "exporting to ONNX needs the package onnx, got an installation without it; run pip install 'fedspd[onnx]'."
        )
    from fedspd.export.onnx_model import to_onnx

    note = "Every column is an input of shape (records, 1): a double, not a number where it is missing, or a string."
    return Exported(to_onnx(model).SerializeToString(), [note])


def _csv(model: Model) -> Exported:
    text = io.StringIO()
    head = ["class" if name == "category" else name for name in Coefficient._fields]
    write_csv(text, [head, *model.coefficients()])
    return Exported(text.getvalue().encode(), _left_out(model.recipe.row_norm))


def _left_out(row_norm: float | None) -> list[str]:
    """What coefficients cannot say."""
    if row_norm is None:
        return []
    return [
        "Coefficients alone are not the whole model: fedspd shortens scaled rows that are longer than "
        f"{row_norm:g} before it multiplies. Predictions for those differ."
    ]


FORMS: dict[str, Callable[[Model], Exported]] = {"sklearn": _sklearn, "onnx": _onnx, "csv": _csv}
