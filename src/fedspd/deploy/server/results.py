"""What a finished run leaves in the server's folder: the model, its history, and what each site was charged."""

import csv
import io
import json
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from fedspd.data import Schema
from fedspd.deploy.server.checkpoint import Checkpoint, write_whole
from fedspd.deploy.server.post import Say
from fedspd.experiment import Agreed
from fedspd.privacy import ProvedPlan

SITE = ("site", "records", "asked", "answered", "charges", "epsilon", "retired")


def write_results(folder: Path, checkpoint: Checkpoint, agreed: Agreed[Any], schema: Schema, say: Say) -> None:
    """Write model.npz, history.csv and statement.json, and report the table of sites."""
    content = io.BytesIO()
    np.savez(
        content, weights=np.asarray(agreed.algorithm.model(checkpoint.server)), mean=checkpoint.mean,
        deviation=checkpoint.deviation, columns=np.array(schema.columns), classes=np.array(schema.classes),
    )  # fmt: skip
    write_whole(folder / "model.npz", content.getvalue())
    write_whole(folder / "history.csv", _history(checkpoint).encode())
    stated = statement(checkpoint, agreed)
    write_whole(folder / "statement.json", (json.dumps(stated, indent=2) + "\n").encode())
    say(table(stated))


def statement(checkpoint: Checkpoint, agreed: Agreed[Any]) -> dict[str, Any]:
    """What was claimed and what each site was charged, as values JSON can hold."""
    plan, last = agreed.plan, checkpoint.history[-1] if checkpoint.history else {}
    proved = isinstance(plan, ProvedPlan)
    config = json.loads(checkpoint.settings)["config"]
    return {
        "run": checkpoint.run,
        "algorithm": config["algorithm"]["name"],
        "guarantee": plan.guarantee,
        "epsilon": float(plan.budgets.max()) if proved else None,
        "delta": plan.delta,
        "unit": "record",
        "relation": plan.relation,
        "sampling": plan.sampling,
        "accountant": plan.accountant if proved else "published",
        "adversary": "anyone who sees every upload and every model, the server included",
        "rounds": checkpoint.round,
        "rounds_planned": agreed.rounds,
        "test_accuracy": last.get("test_accuracy"),
        "sites": [{key: _plain(getattr(member, key)) for key in SITE} for member in checkpoint.roster],
    }


def table(stated: dict[str, Any]) -> str:
    """The statement as text, a line for each site."""
    accuracy = stated["test_accuracy"]
    lines = [
        f"{stated['run']}: {stated['algorithm']}, {stated['rounds']} of {stated['rounds_planned']} rounds"
        + ("" if accuracy is None else f", test accuracy {accuracy:.4f}"),
        f"guarantee: {stated['guarantee']}"
        + (
            f", epsilon {stated['epsilon']:g} at delta {stated['delta']:g}, {stated['relation']}"
            if stated["epsilon"]
            else ""
        ),
        f"{'site':<20}{'records':>9}{'asked':>7}{'answered':>10}{'charges':>9}{'epsilon':>9}  ",
    ]
    for site in stated["sites"]:
        epsilon = "" if site["epsilon"] is None else f"{ceil(site['epsilon'] * 1e4) / 1e4:.4f}"
        lines.append(
            f"{site['site']:<20}{site['records']:>9}{site['asked']:>7}{site['answered']:>10}{site['charges']:>9}"
            f"{epsilon:>9}  {site['retired']}".rstrip()
        )
    return "\n".join(lines)


def _history(checkpoint: Checkpoint) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(checkpoint.history[0]) if checkpoint.history else ["round"])
    writer.writeheader()
    writer.writerows(checkpoint.history)
    return text.getvalue()


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
