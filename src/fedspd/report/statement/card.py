"""A model card as people read it."""

from collections.abc import Mapping
from typing import Any

from fedspd.report.numbers import at_most
from fedspd.report.page import Cell, Grid, Section
from fedspd.report.statement.trust import conditions
from fedspd.results.counted import counted

NOT_DECLARED = "Not declared."
NO_MODEL = "The run diverged: the model is of no use."
FOOT = "Made from the files of the run's folder. Its privacy statement says what is claimed, and what that rests on."


def card_title(card: Mapping[str, Any]) -> str:
    """What the page is called."""
    return f"Model card: {card['model']['method']}"


def card_lead(card: Mapping[str, Any]) -> str:
    """The model in a sentence, and what its claim rests on."""
    model, privacy = card["model"], card["privacy"]
    condition, otherwise = conditions(card["trust"], privacy["delta"])
    told = {
        "proved": f"({at_most(privacy['epsilon'])}, {privacy['delta']:g})-differential privacy, proved, of a "
        f"{privacy['unit']}{condition}.{otherwise}",
        "none": "no privacy.",
    }.get(privacy["standing"], "no privacy that is proved.")
    return f"A linear model of {model['weights']} weights, trained by {model['method']} with {told}"


def card_sections(card: Mapping[str, Any]) -> tuple[Section, ...]:
    """Use, data, measures, limits."""
    data = card["data"]
    unit = card["privacy"]["unit"]
    many = "" if data["records"] is None or unit == "client" else f" with {counted(data['records'], unit)}"
    held = f"{counted(data['clients'], 'client')}{many}"
    about = tuple(text for text in (data["told"] or NOT_DECLARED, data["region"]) if text)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (one["what"], one["group"] or "all", f"{one['value']:.4g}", _interval(one), one["on"])
        for one in card["measures"]
    )
    columns = ("measure", "of", "value", "95 % interval", "measured on")
    return (
        Section("Intended use", (card["intended_use"] or NOT_DECLARED,)),
        Section("Data", (*about, f"Trained on {held}; digest of the schema, SHA-256: {data['schema']}.")),
        Section(
            "How well it does",
            () if rows else (NO_MODEL if card["model"]["diverged"] else "It was not measured.",),
            (),
            (Grid("", columns, rows),),
        ),
        Section("Limits", tuple(card["limits"])),
    )


def _interval(measure: Mapping[str, Any]) -> str:
    return "" if measure["low"] is None else f"{measure['low']:.4g} to {measure['high']:.4g}"
