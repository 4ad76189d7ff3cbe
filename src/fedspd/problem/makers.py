"""Losses by their names: which targets each takes, and which one a target has by default."""

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from fedspd.errors import InputError
from fedspd.problem.losses import Loss, Softmax, SquaredHinge
from fedspd.problem.regression import Huber, LeastSquares, Poisson
from fedspd.target import Classes, Count, Number, Target

Maker = Callable[[Target], Loss]
"""Makes a loss for a target, or refuses it."""


def softmax(target: Target) -> Loss:
    """For two classes or more."""
    if not isinstance(target, Classes) or len(target.classes) < 2:
        refuse("softmax", "classes", target)
    return Softmax(len(target.classes))


def squared_hinge(target: Target) -> Loss:
    """For two classes."""
    if not _two(target):
        refuse("squared-hinge", "two classes", target)
    return SquaredHinge()


def least_squares(target: Target) -> Loss:
    """For a number, or for two classes taken as 0 and 1."""
    if not _two(target) and not isinstance(target, Number):
        refuse("least-squares", "a number or two classes", target)
    return LeastSquares(of_classes=isinstance(target, Classes))


def huber(target: Target) -> Loss:
    """For a number."""
    if not isinstance(target, Number):
        refuse("huber", "a number", target)
    return Huber()


def poisson(target: Target) -> Loss:
    """For a count."""
    if not isinstance(target, Count):
        refuse("poisson", "a count", target)
    return Poisson(target.most, target.center)


LOSSES: dict[str, Maker] = {
    "softmax": softmax,
    "least-squares": least_squares,
    "squared-hinge": squared_hinge,
    "huber": huber,
    "poisson": poisson,
}
"""Makers by name; each takes what is predicted, and refuses what it is not for."""

USUAL: dict[type, str] = {Classes: "softmax", Number: "least-squares", Count: "poisson"}
"""The loss of a target where none is named."""


def loss_name(name: str | None, target: Target) -> str:
    """The name in a configuration, or that of the usual loss for the target."""
    return name or USUAL[type(target)]


def make_loss(name: str | None, target: Target, threshold: float) -> Loss:
    """The loss a configuration names, or the usual one for the target; the threshold is huber's."""
    loss = LOSSES[loss_name(name, target)](target)
    return replace(loss, threshold=threshold) if name == "huber" and isinstance(loss, Huber) else loss


def refuse(name: str, needed: str, target: Target) -> NoReturn:
    """Say which targets a loss takes, what it got, and which losses fit that."""
    fitting = " or ".join(_fitting(target))
    remedy = f"use {fitting}" if fitting else "name the classes of the data"
    raise InputError(f"problem.loss = {name} predicts {needed}, got {_words(target)}; {remedy}.")


def _fitting(target: Target) -> list[str]:
    match target:
        case Number():
            return ["least-squares", "huber"]
        case Count():
            return ["poisson"]
        case Classes(classes=(_, _)):
            return ["softmax", "least-squares", "squared-hinge"]
        case Classes(classes=(_, _, *_)):
            return ["softmax"]
    return []


def _words(target: Target) -> str:
    match target:
        case Number():
            return "a number"
        case Count():
            return "a count"
        case Classes():
            return f"{len(target.classes)} classes"


def _two(target: Target) -> bool:
    return isinstance(target, Classes) and len(target.classes) == 2
