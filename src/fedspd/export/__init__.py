"""Models in the forms that other programs read: scikit-learn's pipelines, ONNX, and plain tables of coefficients.

Nothing is trained here. Libraries are loaded when a form is asked for.
"""

from fedspd.export.forms import Exported, exported

__all__ = ["Exported", "exported"]
