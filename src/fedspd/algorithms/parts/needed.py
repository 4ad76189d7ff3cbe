"""What methods as published, or without privacy, cannot do without."""

from fedspd.algorithms.method import Public
from fedspd.errors import InputError
from fedspd.privacy import PublishedPlan


def needed_rounds(public: Public) -> int:
    """T, for which they have no rule."""
    if public.rounds is None:
        raise InputError("run.rounds is needed by this method, got none; set it.")
    return public.rounds


def papers_plan(public: Public) -> PublishedPlan:
    """The plan whose noise a published step size counts on."""
    if public.plan is None:
        raise RuntimeError("a method as published is made for a plan as published.")
    return public.plan
