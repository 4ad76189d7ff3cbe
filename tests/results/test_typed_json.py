"""Files of a run folder that somebody may have changed: read as they were written, or refused in a sentence."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedspd.errors import InputError
from fedspd.results import STATEMENT, read_statement
from fedspd.results.audit import AUDIT, Attacked, AuditRecord, Moved, Replayed, read_audit
from fedspd.results.evaluation import EVALUATION, read_evaluations
from fedspd.results.inference import INFERENCE, read_inferences
from tests.fuzz.targets import CORPUS, refused

READ: dict[str, Callable[[Path], Any]] = {
    EVALUATION: read_evaluations, INFERENCE: read_inferences, AUDIT: read_audit, STATEMENT: read_statement,
}  # fmt: skip
ODD = (None, "x", [], {}, -1, 1e308, True, [None], {"a": {"b": 1}}, "\x1b[31m", 10**30, 10**400)


def whole(name: str) -> Any:
    """What the corpus has of it."""
    return json.loads((CORPUS / name.removesuffix(".json") / "whole").read_text())


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands; of a list the first two items."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, one in items:
        yield from places(one, (*place, key))


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """The value with something else there."""
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = changed(value[place[0]], place[1:], new)
    return copy


@pytest.mark.parametrize("name", READ)
def test_a_value_of_another_kind_anywhere_is_shown_or_refused_in_a_sentence(name: str) -> None:
    content = whole(name)
    odd = [(place, new) for place in places(content) for new in ODD]
    for place, new in odd[:: 1 + len(odd) // 150]:
        sentence = refused(name.removesuffix(".json"), json.dumps(changed(content, place, new)).encode())
        assert sentence is None or sentence.endswith("."), (place, new)


@pytest.mark.parametrize(
    ("name", "place", "new"),
    [
        (EVALUATION, ("evaluations", 0, "classes"), None), (EVALUATION, ("evaluations", 0, "epsilon"), "x"),
        (EVALUATION, ("evaluations", 0, "measures", 0, "name"), 3), (EVALUATION, ("version",), 2),
        (EVALUATION, ("evaluations", 0, "measures", 0, "low"), None), (EVALUATION, ("evaluations", 0, "edges"), 3),
        (INFERENCE, (0, "epsilon"), None), (INFERENCE, (0, "start", 0), "x"), (INFERENCE, (0, "records"), 2.5),
        (AUDIT, ("claimed_epsilon",), None), (AUDIT, ("delta",), "x"), (AUDIT, ("confidence",), []),
        (AUDIT, ("replay", "worst_ratio"), "x"), (AUDIT, ("attacks",), [3]), (AUDIT, ("delta",), float("inf")),
        (STATEMENT, ("meaning",), None), (STATEMENT, ("meaning", "guesses"), []),
        (STATEMENT, ("guarantee", "groups", 0, "size"), 10**30), (STATEMENT, ("guarantee", "delta"), 2.0),
        (STATEMENT, ("guarantee", "epsilon"), None), (STATEMENT, ("ledger", "rows"), 10**30),
    ],
)  # fmt: skip
def test_what_is_of_another_kind_is_refused(tmp_path: Path, name: str, place: tuple[Any, ...], new: Any) -> None:
    content = whole(name)
    (tmp_path / name).write_text(json.dumps(content))
    assert READ[name](tmp_path)
    (tmp_path / name).write_text(json.dumps(changed(content, place, new)))
    with pytest.raises(InputError, match=rf"{name} must be .*, got"):
        READ[name](tmp_path)


def test_an_audit_that_found_an_endless_movement_comes_back_from_its_file(tmp_path: Path) -> None:
    one = Attacked("a server", 1.0, 2.0, 2.0, None, 5000)
    found = AuditRecord(
        1.0,
        1e-5,
        "proved",
        2.0,
        0.999,
        "a server",
        5000,
        True,
        (one,),
        Replayed(9, None, True, 2, False, (Moved(1, 1, None),)),
        True,
    )  # fmt: skip
    found.write(tmp_path)
    assert read_audit(tmp_path) == found
