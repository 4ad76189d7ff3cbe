"""A loss is made for a target, by its name or by the target's kind, and refuses a target that it is not for."""

import pytest

from fedspd.errors import InputError
from fedspd.problem import LOSSES, Huber, LeastSquares, Loss, Poisson, Softmax, SquaredHinge, make_loss
from fedspd.target import Classes, Count, Number, Target

TWO, FOUR = Classes("sex", ("f", "m")), Classes("part", ("n", "e", "s", "w"))
AGE, VISITS = Number("age", 0.0, 100.0), Count("visits", 20.0, 2.0)
FITTING: dict[tuple[str, Target], Loss] = {
    ("softmax", TWO): Softmax(2),
    ("softmax", FOUR): Softmax(4),
    ("squared-hinge", TWO): SquaredHinge(),
    ("least-squares", TWO): LeastSquares(),
    ("least-squares", AGE): LeastSquares(of_classes=False),
    ("huber", AGE): Huber(0.25),
    ("poisson", VISITS): Poisson(20.0, 2.0),
}
REFUSED = [(name, target) for name in LOSSES for target in (TWO, FOUR, AGE, VISITS) if (name, target) not in FITTING]


@pytest.mark.parametrize(("named", "loss"), FITTING.items())
def test_a_name_makes_its_loss_for_a_target(named: tuple[str, Target], loss: Loss) -> None:
    assert make_loss(*named, threshold=0.25) == loss


@pytest.mark.parametrize(("name", "target"), REFUSED)
def test_a_target_that_a_loss_is_not_for_is_refused_with_the_losses_that_fit(name: str, target: Target) -> None:
    with pytest.raises(InputError, match=rf"^problem.loss = {name} predicts .*, got .*; use .*\.$") as refused:
        make_loss(name, target, 0.5)
    remedy = str(refused.value).rpartition("; use ")[2].removesuffix(".")
    assert remedy.split(" or ") == [name for name in LOSSES if (name, target) in FITTING]


def test_a_target_without_classes_is_told_so() -> None:
    with pytest.raises(InputError, match=r"softmax predicts classes, got 0 classes; name the classes of the data\.$"):
        make_loss(None, Classes("", ()), 0.5)


def test_without_a_name_the_kind_of_the_target_decides() -> None:
    usual = [make_loss(None, target, 0.5) for target in (TWO, FOUR, AGE, VISITS)]
    assert usual == [Softmax(2), Softmax(4), LeastSquares(of_classes=False), Poisson(20.0, 2.0)]
