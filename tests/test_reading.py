"""One reader turns tables into frozen dataclasses; what it refuses, it refuses in a sentence."""

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.config import load, parse, parse_override
from fedspd.deploy.protocol.identity import read_members
from fedspd.deploy.server.settings import read_federation
from fedspd.deploy.site.settings import read_site
from fedspd.errors import InputError
from fedspd.reading import overridden, parse_section, setting, typed

TOO_LONG = 10**400  # for a float
TOO_MANY_DIGITS = "9" * 5000  # for Python to read


@dataclass(frozen=True)
class Tea:
    """A section."""

    kind: str = setting("", "what is brewed", needed=True)
    minutes: float = setting(3.0, "how long", above=0)
    bound: float = setting(1.0, "how strong at most", above=0, infinite=True)
    cups: int | None = setting(None, "how many; absent: one", at_least=1)
    with_it: tuple[str, ...] = setting((), "what goes in", choices=("milk", "lemon"))


REFUSED = {
    "a needed key": ({}, "tea.kind is needed, got none; set it: what is brewed."),
    "a misspelled key": ({"kind": "green", "minuts": 2}, "unknown key tea.minuts; did you mean 'minutes'?"),
    "text among choices": ({"kind": "green", "with_it": ["milk", "salt"]}, "must be one of milk, lemon, got 'salt'."),
    "a number among strings": ({"kind": "green", "with_it": [1]}, "each of tea.with_it must be a string, got 1."),
    "a string for a list": ({"kind": "green", "with_it": "milk"}, "must be a list of strings, got 'milk'."),
    "a number for an absent one": ({"kind": "green", "cups": 1.0}, "tea.cups must be a whole number, got 1.0."),
    "a number too long": ({"kind": "green", "minutes": TOO_LONG}, "tea.minutes must be finite and above 0, got inf."),
    "a negative one": ({"kind": "green", "bound": -TOO_LONG}, "tea.bound must be above 0, got -inf."),
}


@pytest.mark.parametrize(("keys", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_table_that_does_not_fit_its_class_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_section({"tea": Tea}, "tea", keys)
    assert message in str(caught.value)


def test_a_table_that_fits_becomes_its_class() -> None:
    read = parse_section({"tea": Tea}, "tea", {"kind": "green", "minutes": 2, "bound": inf, "with_it": ["lemon"]})
    assert read == Tea("green", 2.0, inf, None, ("lemon",))
    assert isinstance(read.minutes, float)


def test_a_whole_number_too_long_for_a_float_is_refused_like_one_without_end() -> None:
    with pytest.raises(InputError, match=r"privacy\.delta must be finite and above 0 and below 1, got inf"):
        parse({"privacy": {"delta": TOO_LONG}})
    with pytest.raises(InputError, match=r"run\.seed must be at least 0, got -1000"):
        parse({"run": {"seed": -TOO_LONG}})
    assert typed("x", tuple[float, ...], [1, -TOO_LONG]) == (1.0, -inf)


def test_numbers_of_numpy_are_numbers_and_become_pythons() -> None:
    for declared, value in (
        (float, np.float64(0.5)),
        (float, np.float32(0.5)),
        (float, np.int64(2)),
        (int, np.int64(2)),
    ):
        read = typed("x", declared, value)
        assert read == value
        assert type(read) is declared
    for declared, value in ((int, np.float64(2.0)), (float, np.True_), (int, np.True_)):
        with pytest.raises(InputError, match=r"x must be a .*number, got np\."):
            typed("x", declared, value)


@pytest.mark.parametrize("read", [load, read_site, read_federation, read_members])
def test_a_number_of_too_many_digits_is_no_valid_toml_for_any_reader(tmp_path: Path, read: Any) -> None:
    file = tmp_path / "file.toml"
    file.write_text(f"[run]\nseed = {TOO_MANY_DIGITS}\n")
    with pytest.raises(InputError, match=r"is not valid TOML: .*; mend it at that place"):
        read(file)
    assert parse_override(f"run.seed={TOO_MANY_DIGITS}") == ("run.seed", TOO_MANY_DIGITS)


@pytest.mark.parametrize("read", [load, read_site, read_federation, read_members])
def test_a_file_with_the_mark_that_windows_editors_write_first_is_read(tmp_path: Path, read: Any) -> None:
    file = tmp_path / "file.toml"
    file.write_text("\ufeff[nothing]\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read(file)
    assert "TOML" not in str(caught.value)


def test_overrides_enter_sections_and_nothing_else() -> None:
    values: dict[str, Any] = {"run": {"seed": 1}, "site": [{"name": "a"}], "listen": 3}
    changed = overridden(values, {"run.seed": 2, "data.bias": 0.5, "listen.port": 1})
    assert changed == {"run": {"seed": 2}, "data": {"bias": 0.5}, "site": [{"name": "a"}], "listen": 3}
    assert overridden(changed, {"run.seed": None, "data.bias": None, "data.name": "x"})["data"] == {"name": "x"}
    assert "run" not in overridden(changed, {"run.seed": None})
    assert values["run"] == {"seed": 1}
    for name in ("seed", "site.name"):
        with pytest.raises(InputError, match=rf"must be named section\.key, got '{name}'"):
            overridden(values, {name: 1})


def test_an_empty_section_of_an_unknown_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.toml").write_text("[privcy]\n")
    with pytest.raises(InputError, match=r"unknown section \[privcy\]; did you mean 'privacy'"):
        load(tmp_path / "file.toml")
