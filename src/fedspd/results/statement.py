"""A run's privacy statement on disk: who writes it stands beside who reads it, and both keep to one schema.

The schema is `statement.schema.json`, a JSON Schema of few words, which `fits` understands.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedspd.errors import InputError
from fedspd.reading import shown
from fedspd.results.files import own_file, to_json, write_whole
from fedspd.results.typed_json import LARGEST, read_json

STATEMENT, SIGNATURE = "statement.json", "statement.sig"
DECLARED = (
    "epsilon_chosen_by", "epsilon_reason", "data_steward", "retention", "intended_use", "data", "limits", "curator",
    "region", "sector",
)  # fmt: skip
"""What people write themselves."""
Statement = Mapping[str, Any]
_KINDS: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
    "number": (int, float),
}  # fmt: skip


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of statements."""
    return json.loads((files("fedspd.results") / "statement.schema.json").read_text("utf-8"))


def statement_text(statement: Statement) -> str:
    """The statement as JSON, as it is filed and signed."""
    return to_json(statement) + "\n"


def write_statement(folder: Path, statement: Statement) -> None:
    """Put it into a run's folder, in place of an earlier one."""
    content = statement_text(statement)
    checked(json.loads(content), "a statement")
    write_whole(folder / STATEMENT, content.encode())


def is_signed(folder: Path) -> bool:
    """Whether a signature lies beside the statement, which then stays as it is."""
    return own_file(folder, SIGNATURE).exists()


def read_statement(folder: Path) -> Statement:
    """What `write_statement` wrote.

    Raises:
        InputError: there is none, or something that is no statement of this version.
    """
    path = own_file(folder, STATEMENT)
    if not path.is_file():
        raise InputError(
            f"expected a run folder with {STATEMENT}, got {folder} without; name a folder that fedspd run or fedspd "
            "deploy server wrote, or make the run again."
        )
    return read_statement_file(path)


def read_statement_file(path: Path) -> Statement:
    """A statement wherever it lies."""
    try:
        value = read_json(path)
    except OSError as error:
        raise InputError(f"expected a statement at {path}, got '{error.strerror}'; name another file.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be a statement in JSON, got: {error}; restore it.") from error
    return checked(value, str(path))


def checked(value: Any, where: str) -> Statement:
    """A statement that keeps to the schema; anything else is refused by the first place that does not."""
    odd = next(misfits(value, schema()), None)
    if odd is None and value["guarantee"]["standing"] == "proved" and None in (
        value["guarantee"]["epsilon"], value["meaning"],
    ):  # fmt: skip
        odd = "a claim that is proved, without its epsilon or meaning"
    if odd is not None:
        raise InputError(f"{where} must be a statement of version 1, got {odd}; restore it, or make the run again.")
    return value


def misfits(value: Any, rule: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """What in a value does not keep to a rule of the schema, in words."""
    if "$ref" in rule:
        rule = schema()["$defs"][rule["$ref"].rpartition("/")[2]]
    here = place or "it"
    if "anyOf" in rule:
        if all(any(misfits(value, one, place)) for one in rule["anyOf"]):
            yield f"something else in {here}"
        return
    allowed = [rule["const"]] if "const" in rule else rule.get("enum")
    if allowed is not None and (value not in allowed or isinstance(value, bool)):
        yield f"{str(value)[:40]!r} in {here}"
    elif "type" in rule and not _is(value, rule["type"]):
        yield f"{type(value).__name__} in {here}"
    elif isinstance(value, dict):
        yield from _of_object(value, rule, place)
    elif isinstance(value, list):
        if len(value) < rule.get("minItems", 0):
            yield f"too few in {here}"
        for number, one in enumerate(value):
            yield from misfits(one, rule.get("items", {}), f"{place}[{number}]")
    elif isinstance(value, str) and not re.search(rule.get("pattern", ""), value):
        yield f"{value[:40]!r} in {here}"
    elif isinstance(value, int | float) and not (
        rule.get("minimum", -LARGEST) <= value <= rule.get("maximum", LARGEST)
    ):
        yield f"{shown(value)} in {here}"


def _of_object(value: dict[str, Any], rule: Mapping[str, Any], place: str) -> Iterator[str]:
    known, others = rule.get("properties", {}), rule.get("additionalProperties", {})
    for name in rule.get("required", ()):
        if name not in value:
            yield f"no {f'{place}.{name}'.lstrip('.')}"
    for name, one in value.items():
        if name not in known and others is False:
            yield f"the unknown {f'{place}.{name}'.lstrip('.')[:60]!r}"
        else:
            yield from misfits(one, known.get(name, others or {}), f"{place}.{name}".lstrip("."))


def _is(value: Any, kinds: str | list[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in kinds
    names = [kinds] if isinstance(kinds, str) else kinds
    return any(isinstance(value, _KINDS[name]) for name in names)
