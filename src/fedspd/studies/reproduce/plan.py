"""A figure as a file: which curves it has and how each of them differs from a preset."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from fedspd.config import Config, load
from fedspd.errors import InputError
from fedspd.studies.lineup import first_try

AT_THE_END = {"metrics.spent_every_round": False}  # of what is spent, only the end is shown
FIGURES = ("fig2", "fig3", "fig4", "fig5", "fig6")


@dataclass(frozen=True)
class Curve:
    """One line of a figure."""

    label: str
    config: Config
    level: float | None  # of what the figure varies, where that is a number
    tuned: bool  # whether its step sizes are chosen on the validation split


@dataclass(frozen=True)
class Study:
    """One panel of a figure, with the published preset or with the proved method."""

    figure: str
    name: str
    variant: Literal["published", "proved"]
    title: str
    measure: Literal["runs", "privacy"]  # trained models, or the total loss alone
    curves: tuple[Curve, ...]


def load_studies(figure: str) -> list[Study]:
    """All panels of a figure, published ones first, or of "all" figures."""
    if figure == "all":
        return [study for name in FIGURES for study in load_studies(name)]
    if figure not in FIGURES:
        raise InputError(f"the figure must be one of {', '.join(FIGURES)} or all, got {figure!r}; name one of those.")
    folder = files("fedspd") / "studies" / "figures" / figure
    texts = {path.name.removesuffix(".toml"): path.read_text() for path in folder.iterdir() if path.name[0] != "."}
    return [_study(figure, name, texts[name]) for name in sorted(texts, key=lambda name: ("proved" in name, name))]


def _study(figure: str, name: str, text: str) -> Study:
    values = tomllib.loads(text)
    study, curves = values.pop("study"), values.pop("curve")
    return Study(
        figure=figure,
        name=name,
        variant=study["preset"],
        title=study["title"],
        measure=study["measure"],
        curves=tuple(_curve(study["preset"], values, curve) for curve in curves),
    )


def _curve(preset: str, common: Mapping[str, Any], curve: dict[str, Any]) -> Curve:
    label, level, tuned = curve.pop("label"), curve.pop("level", None), curve.pop("tuned", False)
    values = dict(_flat(common)) | dict(_flat(curve))
    values = first_try(values.get("algorithm.name")) | values if tuned else values
    return Curve(label, load(preset, values | {"metrics.criterion": False}, where_read=AT_THE_END), level, tuned)


def _flat(sections: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    for section, keys in sections.items():
        for key, value in keys.items():
            yield f"{section}.{key}", value
