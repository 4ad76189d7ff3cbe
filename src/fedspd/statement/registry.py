"""A statement as a draft for the registry of differential privacy deployments of OpenDP and NIST.

Fields are those of `schemas/deployments-schema.yaml` in github.com/opendp/deployments-registry-data at commit
057e5d81cf60150dd3307e0cf4504b957802fb3b, the newest that could be read; the registry still changes them. What a program
cannot know is left for people, and says so.
"""

import re
from collections.abc import Mapping
from typing import Any

from fedspd.report.statement.audited import REFUTED
from fedspd.report.statement.released import released_afterwards
from fedspd.report.statement.trust import conditions
from fedspd.results import Statement, to_json
from fedspd.results.counted import times

OPEN = "To be filled in."
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")


def registry_text(statement: Statement) -> str:
    """The draft as JSON that is YAML too, of which older readers take 1e-05 for a text."""
    return re.sub(r'(?<=": )(\d+)(e-\d+)(?=,?\n)', r"\1.0\2", to_json(registry_draft(statement))) + "\n"


def registry_draft(statement: Statement) -> dict[str, Any]:
    """A draft of tier 3."""
    run, claim, declared = statement["run"], statement["guarantee"], statement["declared"]
    name = run["name"] or run["method"]
    deployment: dict[str, Any] = {
        "basic": {
            "name": f"{run['title']} model of {name}",
            "data_curators": [{"data_curator_name": declared["curator"] or OPEN, "data_curator_type": "Industry"}],
            "description": f"A linear model of {statement['released']['numbers']} weights, by federated learning.",
            "intended_use": declared["intended_use"] or OPEN,
            "data_product_type": "Machine learning model",
            "data_product_region": declared["region"] or OPEN,
            **({"data_product_sector": declared["sector"]} if declared["sector"] in SECTORS else {}),
            "publication_date": run["finished"],
        },
        "dp_variant": {
            "variant_name": "Approximate DP" if claim["standing"] == "proved" else "Custom",
            "data_domain": declared["data"] or OPEN,
            "unprotected_quantities": "\n".join(f"- {one}" for one in statement["unprotected"]),
        },
        "privacy_loss": _loss(statement),
        "deployment_model": _model(statement),
        "implementation": _implementation(statement),
        "administrative": {"status": "Draft", "registry_authors": [declared["data_steward"] or OPEN], "tier": 3},
    }
    return {"url_slug": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"), "deployment": deployment}


def _loss(statement: Statement) -> dict[str, Any]:
    claim, run = statement["guarantee"], statement["run"]
    numbers = {} if claim["epsilon"] is None else {"epsilon": claim["epsilon"], "delta": claim["delta"]}
    refuted = statement["audit"] is not None and statement["audit"]["refuted"]
    told = "Proved." if claim["standing"] == "proved" else f"Nothing is proved: {claim['because']}."
    told = f"{REFUTED} {told}" if refuted else told
    unit, whose = ("client", "") if claim["unit"] == "client" else (claim["unit"], " of one client")
    groups = "; ".join(f"{one['size']} {unit}s{whose}: {_pair(one['at_one_client'])}" for one in claim["groups"][1:])
    held = run.get("held_out") or 0
    apart = f"Of these {claim['unit']}s {held} were held out to measure the model on. " if held else ""
    return {
        "privacy_unit": claim["unit"],
        "privacy_unit_details": (f"Neighbors: {claim['neighbors']}, one {unit}{whose}. {apart}{groups}".strip()),
        **({"number_of_privacy_units": run["records"] + held} if run["records"] is not None else {}),
        "privacy_parameters": numbers,
        "privacy_parameters_details": told,
    }


def _model(statement: Statement) -> dict[str, Any]:
    run, trust, budget = statement["run"], statement["trust"], statement["budget"]
    condition, otherwise = conditions(trust, statement["guarantee"]["delta"])
    later = [(one.apart, f"{one.what}, with noise, {times(one.number)}") for one in released_afterwards(statement)]
    within = ", ".join([f"{run['rounds']} rounds", *(told for apart, told in later if not apart)])
    beside = "".join(f" {told.capitalize()}, charged apart." for apart, told in later if apart)
    life = "" if budget is None else f" {budget['other_runs']} other runs on the ledger, whose budget is fixed."
    return {
        "model_name": "Federated",
        "model_name_details": f"{run['clients']} clients; the server sees {trust['server_sees'].replace('-', ' ')}.",
        "trust_assumptions": f"It holds against {trust['adversary']}{condition}.{otherwise}",
        "actors": f"Clients, which hold the records and add noise; {statement['released']['to']}.",
        "release_type": "Many releases",
        "release_type_details": f"{within}, all part of one epsilon.{beside}{life}",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }


def _implementation(statement: Statement) -> dict[str, Any]:
    how, declared = statement["mechanism"], statement["declared"]
    versions = ", ".join(f"{name} {version}" for name, version in statement["versions"].items())
    return {
        "preprocessing_and_hyperparameter_tuning": statement["tuning"]["told"],
        "mechanisms": (
            f"{how['noise']} noise of {how['noise_multiplier']} times the sensitivity; {how['sampling']}. "
            f"{statement['randomness']['told']} {versions}. Code {statement['digests']['code']}."
        ),
        "composition": f"All releases are composed together by the accountant {how['accountant']}.",
        "post_processing": "Models of the last rounds may be averaged.",
        "justification": ". ".join(
            one for one in (declared["epsilon_chosen_by"], declared["epsilon_reason"]) if one
        ) or OPEN,
        "utility": statement["evaluation"]["told"],
        "additional_information": declared["limits"] or "",
    }  # fmt: skip


def _pair(bound: Mapping[str, float] | None) -> str:
    return "nothing is proved" if bound is None else f"({bound['epsilon']:.5g}, {bound['delta']:.3g})"
