"""What a finished run claims, from its summary, its settings and the releases that were planned."""

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import Any

import numpy as np

from fedspd.algorithms import METHODS
from fedspd.privacy.accounting import Event, to_dict
from fedspd.privacy.accounting.groups import GroupBound, all_gaussian, at_one_client, at_several_clients
from fedspd.results import SITES, RunRecord, Summary
from fedspd.results.statement import DECLARED
from fedspd.statement import words
from fedspd.statement.meaning import meaning

GROUP_SIZES = (1, 2, 5, 10, 20)
PROVED, SUMS = "proved", "secure-sums"


def claimed(record: RunRecord, planned: Sequence[tuple[Event, int]], model: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The statement of a run of which no ledger is at hand.

    Args:
        record: what its folder holds.
        planned: releases of the client that may spend most; none where nothing is proved.
        model: its arrays, of which the schema is one.
    """
    summary, settings = record.summary, tomllib.loads(record.configuration)
    proved = summary.guarantee == PROVED and summary.epsilon is not None
    return {
        "format": "fedspd-statement",
        "version": 1,
        "run": {**_run(summary), "held_out": (record.held_out or {}).get("units")},
        "guarantee": _guarantee(summary, planned),
        "released": _released(summary),
        "mechanism": _mechanism(summary, settings),
        "trust": _trust(summary),
        "unprotected": words.unprotected(summary),
        "budget": None,
        "tuning": {"charged": None, "told": words.TUNING},
        "evaluation": words.evaluation(summary),
        "randomness": words.randomness(summary),
        "versions": {"python": str(record.environment.get("python")), **record.environment.get("libraries", {})},
        "digests": {
            "code": code_digest(),
            "schema": _digest(str(model["schema"])),
            "configuration": _digest(record.configuration),
        },
        "ledger": None,
        "audit": None,
        "declared": dict.fromkeys(DECLARED),
        "meaning": meaning(summary.epsilon, summary.delta) if proved and summary.epsilon is not None else None,
    }


def groups(epsilon: float, delta: float, gaussian: bool, sums: bool) -> list[dict[str, Any]]:
    """What several units cost together.

    Args:
        sums: clients share their noise, so that units at several of them count as if they were at one.
    """
    return [
        {
            "size": size,
            "at_one_client": _bound(at_one_client(epsilon, delta, size, gaussian)),
            "at_several_clients": _bound(
                (at_one_client if sums else at_several_clients)(epsilon, delta, size, gaussian)
            ),
        }
        for size in GROUP_SIZES
    ]


def from_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a statement says of the mechanism by the run's settings alone."""
    method = settings.get("algorithm", {})
    return {
        "row_norm": _finite(settings.get("data", {}).get("row_norm")),
        "batch_size": method.get("batch_size"),
        "local_steps": method.get("local_steps"),
    }


@cache
def code_digest() -> str:
    """Of all Python files of the package, each after its name."""
    made = hashlib.sha256()
    for path in sorted(files("fedspd").rglob("*.py")):  # pyright: ignore[reportAttributeAccessIssue]
        name, content = path.relative_to(files("fedspd")).as_posix().encode(), path.read_bytes()
        made.update(len(name).to_bytes(8, "big") + name + len(content).to_bytes(8, "big") + content)
    return made.hexdigest()


def _run(summary: Summary) -> dict[str, Any]:
    kept = ("title", "rounds", "rounds_planned", "stopped", "clients", "records", "records_min", "records_max")
    return {
        "name": summary.run,
        "kind": "sites" if summary.engine == SITES else "simulation",
        "method": summary.algorithm,
        "finished": datetime.now(UTC).date().isoformat(),
        **{name: summary[name] for name in kept},
    }


def _guarantee(summary: Summary, planned: Sequence[tuple[Event, int]]) -> dict[str, Any]:
    epsilon, proved = summary.epsilon, summary.guarantee == PROVED
    gaussian = proved and all_gaussian(planned)
    return {
        "standing": summary.guarantee,
        "epsilon": _finite(epsilon),
        "delta": summary.delta,
        "epsilon_spent": _finite(summary.epsilon_spent_max),
        "because": summary.unproved_because or None,
        "unit": summary.unit,
        "neighbors": summary.relation,
        "gaussian": gaussian,
        "groups": groups(epsilon, summary.delta, gaussian, summary.trust == SUMS)
        if proved and epsilon is not None
        else [],
        "planned": [{"event": to_dict(event), "count": count} for event, count in planned if count],
    }


def _released(summary: Summary) -> dict[str, Any]:
    summed, method = summary.trust == SUMS, METHODS[summary.algorithm]
    sums = words.SUM_OF_GRADIENTS if method.on_sums else words.SUM_OF_STEPS
    return {
        "what": sums if summed else method.card.released,
        "to": words.TO_SUMS if summed else words.TO_SERVER,
        "times": summary.participations_max,
        "uploads": summary.uploads,
        "numbers": summary.dimension,
        "moments": summary.scaling_charged,
    }


def _mechanism(summary: Summary, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "noise": summary.mechanism if summary.guarantee != "none" else "none",
        "noise_multiplier": _finite(summary.noise_multiplier) if summary.guarantee != "none" else None,
        "epsilon_per_round": _finite(summary.epsilon_per_round),
        "clip_norm": _finite(summary.clip_norm),
        "clipped": words.CLIPPED[summary.unit == "client" and not METHODS[summary.algorithm].on_sums],
        "sampling": summary.sampling,
        **from_settings(settings),
        "accountant": summary.accountant,
        "conversion": summary.conversion,
        "precision": summary.precision,
    }


def _trust(summary: Summary) -> dict[str, Any]:
    kept = ("adversary", "cohorts", "members", "threshold", "colluders")
    told = {"server_sees": summary.trust, **{name: summary[name] for name in kept}}
    return {**told, "epsilon_alone": _finite(summary.epsilon_alone)}


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _bound(bound: GroupBound | None) -> dict[str, float] | None:
    return None if bound is None else bound._asdict()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
