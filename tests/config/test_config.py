"""Configuration is strict: what is not known, not of the type or not in the range is refused by name."""

import tomllib
from contextlib import suppress
from dataclasses import fields
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.algorithms import METHODS
from fedspd.config import load, parse, parse_override, presets
from fedspd.config.describing import describe
from fedspd.config.sections import SECTIONS, Config, declared_keys
from fedspd.data import SOURCES
from fedspd.errors import InputError


def keys_of(config: Config) -> list[tuple[str, Any]]:
    return [(section, key) for section in SECTIONS for key in config.declared(section).values()]


def values_of(key: Any) -> st.SearchStrategy[Any]:
    """Any value that a key's own rules allow."""
    rules, kind = key.metadata, str(key.type)
    if "choices" in rules:
        return st.sampled_from(list(rules["choices"]))
    if "bool" in kind:
        return st.booleans()
    if "str" in kind:
        return st.text(st.characters(codec="utf-8"))
    if "int" in kind:
        return st.integers(rules.get("at_least", 0), int(min(10**6, rules.get("within", (0, inf))[1])))
    least, most = rules.get("within", (None, None))
    numbers = st.floats(
        least or rules.get("above", rules.get("at_least")),
        rules.get("below", rules.get("at_most", None if most == inf else most)),
        exclude_min="above" in rules and not least,
        exclude_max="below" in rules,
        allow_infinity=False,
        allow_nan=False,
    )
    return numbers | st.just(inf) if "infinite" in rules else numbers


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Of a method that is drawn: any of its settings, and of the others those that are read beside them."""
    name = draw(st.sampled_from(list(METHODS)))
    needed = {key.name: draw(values_of(key)) for key in fields(METHODS[name].settings) if "needed" in key.metadata}
    values: dict[str, dict[str, Any]] = {"algorithm": {"name": name, **needed}}
    config = parse(values)
    for section, key in draw(st.lists(st.sampled_from(keys_of(config)), unique_by=lambda one: one[1].name)):
        tried = {**values, section: {**values.get(section, {}), key.name: draw(values_of(key))}}
        with suppress(InputError):
            config, values = parse(tried), tried
    return values


@given(values=configurations())
@settings(deadline=None, max_examples=60)
def test_a_config_written_as_toml_and_read_back_is_the_same(values: dict[str, dict[str, Any]]) -> None:
    config = parse(values)
    assert parse(tomllib.loads(tomli_w.dumps(config.to_dict()))) == config
    for section, keys in values.items():
        for key, value in keys.items():
            assert config.section(section)[key] == value


def test_nothing_given_means_the_defaults() -> None:
    assert parse({}) == Config()
    assert parse({"run": {}}).participants == 100


def test_there_are_presets_and_every_one_parses() -> None:
    assert "published" in presets()
    for name in presets():
        assert parse(load(name).to_dict()) == load(name)


def test_the_published_preset_is_the_papers_setup() -> None:
    config = load("published")
    assert (config.partition.clients, config.run.participants, config.run.rounds) == (100, 20, 100)
    assert (
        config.algorithm.settings.local_steps,
        config.algorithm.settings.batch_size,
        config.algorithm.settings.penalty,
    ) == (5, 10, 20.0)
    assert (config.privacy.epsilon, config.privacy.budget, config.privacy.delta) == (1.0, "total", 1e-4)
    assert (config.problem.regularizer, config.problem.strength) == ("l1", 0.01)


def test_the_description_names_every_key_once_with_its_default_and_a_meaning() -> None:
    rows = {name: (default, meaning) for name, default, meaning in describe()}
    known = {f"{section}.{key.name}" for section, key in keys_of(Config()) if section != "algorithm"}
    of_methods = {f"algorithm.{key}" for method in METHODS.values() for key in method.keys}
    of_sources = {f"data.{key}" for source in SOURCES.values() for key in declared_keys(source.settings)}
    assert set(rows) == known | of_methods | of_sources | {"algorithm.name"}
    assert len({(name, meaning) for name, _, meaning in describe()}) == len(describe())
    assert rows["run.participants"] == ("", "clients per round, K; absent: all")
    assert rows["data.row_norm"][0] == ""
    assert "share | full" in rows["problem.per_client"][1]
    assert all(meaning for _, meaning in rows.values())


REFUSED = {
    "unknown section": ({"privcy": {}}, "unknown section [privcy]; did you mean 'privacy'?"),
    "section like no other": ({"xyz": {}}, "unknown section [xyz]; known are data, partition, problem, algorithm,"),
    "unknown key": ({"privacy": {"epsilom": 1.0}}, "unknown key privacy.epsilom; did you mean 'epsilon'?"),
    "key of another section": (
        {"run": {"qqqq": 1}},
        "unknown key run.qqqq; known are rounds, rounds_at_most, participants, selection, most_stale,",
    ),
    "section that is no table": ({"run": 3}, "[run] must be a table of keys, got 3;"),
    "text for a number": ({"privacy": {"epsilon": "1"}}, "privacy.epsilon must be a number, got '1'."),
    "fraction for a whole number": ({"run": {"rounds": 1.5}}, "run.rounds must be a whole number, got 1.5."),
    "truth for a whole number": ({"run": {"rounds": True}}, "run.rounds must be a whole number, got True."),
    "truth for a number": ({"privacy": {"epsilon": True}}, "privacy.epsilon must be a number, got True."),
    "number for truth": ({"metrics": {"criterion": 1}}, "metrics.criterion must be true or false, got 1."),
    "number for text": ({"data": {"name": 1}}, "data.name must be a string, got 1."),
    "list for a number": ({"run": {"seed": [1]}}, "run.seed must be a whole number, got [1]."),
    "no such choice": ({"partition": {"kind": "even"}}, "partition.kind must be one of iid, dirichlet,"),
    "zero epsilon": (
        {"privacy": {"epsilon": 0}},
        "privacy.epsilon must be at least 1e-06 and at most 10000, or inf, got 0.0.",
    ),
    "negative epsilon": (
        {"privacy": {"epsilon": -1.0}},
        "privacy.epsilon must be at least 1e-06 and at most 10000, or inf, got -1.0.",
    ),
    "epsilon nan": (
        {"privacy": {"epsilon": nan}},
        "privacy.epsilon must be at least 1e-06 and at most 10000, or inf, got nan.",
    ),
    "delta zero": ({"privacy": {"delta": 0}}, "privacy.delta must be above 0 and below 1, got 0.0."),
    "delta one": ({"privacy": {"delta": 1}}, "privacy.delta must be above 0 and below 1, got 1.0."),
    "delta two": ({"privacy": {"delta": 2.0}}, "privacy.delta must be above 0 and below 1, got 2.0."),
    "delta nan": ({"privacy": {"delta": nan}}, "privacy.delta must be finite and above 0 and below 1, got nan."),
    "no local step": ({"algorithm": {"local_steps": 0}}, "algorithm.local_steps must be at least 1, got 0."),
    "no record": ({"algorithm": {"batch_size": 0}}, "algorithm.batch_size must be at least 1, got 0."),
    "no client": ({"partition": {"clients": 0}}, "partition.clients must be at least 1, got 0."),
    "negative seed": ({"run": {"seed": -1}}, "run.seed must be at least 0, got -1."),
    "infinite penalty": ({"algorithm": {"penalty": inf}}, "algorithm.penalty must be finite and above 0, got inf."),
    "infinite strength": ({"problem": {"strength": inf}}, "problem.strength must be finite and above 0, got inf."),
    "bias nan": ({"data": {"bias": nan}}, "data.bias must be finite, got nan."),
}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_value_that_cannot_be_meant_is_refused_with_what_was_expected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(values)
    assert message in str(caught.value)


@pytest.mark.parametrize(("section", "key"), [(s, k) for s, k in keys_of(Config()) if "float" in str(k.type)])
def test_no_number_may_be_nan(section: str, key: Any) -> None:
    with pytest.raises(InputError, match=rf"{section}\.{key.name} must be .*, got nan"):
        parse({section: {key.name: nan}})


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("run.seed=7", "run.seed", 7),
        ("privacy.epsilon=inf", "privacy.epsilon", inf),
        ("privacy.delta=1e-5", "privacy.delta", 1e-5),
        ("metrics.criterion=false", "metrics.criterion", False),
        ("partition.kind=label-shards", "partition.kind", "label-shards"),
        ('partition.kind="iid"', "partition.kind", "iid"),
        (" partition.column = marital-status ", "partition.column", "marital-status"),
        ("partition.column=a=b", "partition.column", "a=b"),
        ("partition.column=", "partition.column", None),
    ],
)
def test_an_override_is_read_as_toml_and_as_text_where_it_is_none(text: str, name: str, value: Any) -> None:
    parsed = parse_override(text)
    assert parsed == (name, value)
    assert type(parsed[1]) is type(value)


def test_an_override_without_a_value_or_a_section_is_refused() -> None:
    with pytest.raises(InputError, match=r"section\.key=value, got 'run\.seed'"):
        parse_override("run.seed")
    with pytest.raises(InputError, match=r"section\.key, got 'seed'; for example run\.seed"):
        load("published", {"seed": 1})


def test_overrides_change_their_keys_alone() -> None:
    expected = load("published").to_dict()
    expected["run"]["seed"], expected["data"]["row_norm"] = 5, 2.0
    assert load("published", {"run.seed": 5, "data.row_norm": 2}).to_dict() == expected


def test_a_file_that_puts_a_number_where_a_section_belongs_is_refused_even_under_an_override(tmp_path: Path) -> None:
    path = tmp_path / "scalar.toml"
    path.write_text("run = 3\n")
    with pytest.raises(InputError, match=r"\[run\] must be a table of keys, got 3"):
        load(path, {"run.seed": 1})


def test_a_file_is_found_by_its_path_whatever_its_ending(tmp_path: Path) -> None:
    path = tmp_path / "own.conf"
    path.write_text("[run]\nseed = 11\n")
    assert load(path).run.seed == load(str(path)).run.seed == 11
