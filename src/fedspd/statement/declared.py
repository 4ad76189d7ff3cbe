"""What people declare about a run, in a TOML file of their own: no program can know it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedspd.errors import InputError
from fedspd.reading import parse_section, read_toml, setting
from fedspd.results import Statement

MOST = 300  # characters: the page has two sides


@dataclass(frozen=True)
class Declared:
    """The free fields of a statement."""

    epsilon_chosen_by: str | None = setting(None, "who chose epsilon")
    epsilon_reason: str | None = setting(None, "and why")
    data_steward: str | None = setting(None, "who answers for the records")
    retention: str | None = setting(None, "how long records, model and ledger are kept")
    intended_use: str | None = setting(None, "what the model is for")
    data: str | None = setting(None, "what the records are, and how they were collected")
    limits: str | None = setting(None, "what the model must not be used for")
    curator: str | None = setting(None, "who publishes the model")
    region: str | None = setting(None, "where the records are from")
    sector: str | None = setting(None, "Healthcare, Finance, ...")


def with_declared(statement: Statement, path: Path) -> dict[str, Any]:
    """The statement with what a file declares, in its table [statement]."""
    values = read_toml(path, "a TOML file with a table [statement]", "name another one.")
    if set(values) - {"statement"} or "statement" not in values:
        odd = next(iter(set(values) - {"statement"}), "none")
        raise InputError(f"{path} must have one table, [statement], got {odd!r}; put all keys under [statement].")
    declared = asdict(parse_section({"statement": Declared}, "statement", values["statement"]))
    for name, text in declared.items():
        if text is not None and len(text) > MOST:
            raise InputError(
                f"statement.{name} must be at most {MOST} characters, for the page has two sides, got {len(text)}; "
                "shorten it."
            )
    return {**statement, "declared": {**statement["declared"], **{k: v for k, v in declared.items() if v is not None}}}
