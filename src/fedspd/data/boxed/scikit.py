"""Tables that scikit-learn carries. It is imported where one is read: importing it takes longer than reading."""

from typing import Any

from fedspd.data.boxed.packed import Columns


def read_breast_cancer() -> Columns:
    """569 masses, thirty measures of each, and what they turned out to be."""
    from sklearn.datasets import load_breast_cancer

    bunch: Any = load_breast_cancer()
    return {**_features(bunch), "diagnosis": bunch.target_names[bunch.target]}


def read_digits() -> Columns:
    """1,797 images of eight by eight pixels."""
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    return {**_features(bunch), "digit": bunch.target.astype(str)}


def read_diabetes() -> Columns:
    """442 patients, in the units of the source."""
    from sklearn.datasets import load_diabetes

    bunch: Any = load_diabetes(scaled=False)
    columns = _features(bunch)
    return {**columns, "sex": columns["sex"].astype(int).astype(str), "progression": bunch.target}


def _features(bunch: Any) -> Columns:
    return {str(name): bunch.data[:, place].copy() for place, name in enumerate(bunch.feature_names)}
