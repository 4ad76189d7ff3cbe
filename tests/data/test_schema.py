"""A schema says in public what a table may hold, and says it the same at every site."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspd.data import (
    AdultSettings,
    Categorical,
    Numeric,
    Schema,
    adult,
    adult_schema,
    declare,
    read_adult,
    read_schema,
    schema_text,
)
from fedspd.data.features.columns import Product
from fedspd.data.files.cells import MISSING
from fedspd.errors import InputError
from fedspd.target import Classes, Count, Number
from tests.support.tables import known

AGE = Numeric("age", 18, 110, missing=60)
LACTATE = Numeric("lactate", 0, 30, missing=0, log=True)
WARD = Categorical("ward", ("surgery", "medicine", "intensive care"), missing="medicine", drop_first=True)
SEX = Categorical("sex", ("F", "M"))
SCHEMA = Schema((AGE, WARD, LACTATE, SEX), Classes("outcome", ("home", "died")))

TEXT = """
[target]
column = "outcome"
classes = ["home", "died"]

[[columns]]
name = "age"
bounds = [18, 110]
missing = 60

[[columns]]
name = "ward"
levels = ["surgery", "medicine", "intensive care"]
missing = "medicine"
drop_first = true

[[columns]]
name = "lactate"
bounds = [0, 30]
log = true

[[columns]]
name = "sex"
levels = ["F", "M"]
"""

# A feature is called column=level: without "=" no two of them can have one name.
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="="), min_size=1, max_size=6).filter(
    lambda name: name == name.strip() and name not in MISSING
)


@st.composite
def numeric_columns(draw: st.DrawFn) -> Numeric:
    log = draw(st.booleans())
    lower = draw(st.floats(0 if log else -1e6, 1e6))
    upper = lower + draw(st.floats(1e-3, 1e9))
    return Numeric(draw(NAMES), lower, upper, draw(st.floats(lower, upper)), log)


@st.composite
def categorical_columns(draw: st.DrawFn) -> Categorical:
    levels = tuple(draw(st.lists(NAMES, min_size=2, max_size=4, unique=True)))
    return Categorical(draw(NAMES), levels, draw(st.none() | st.sampled_from(levels)), draw(st.booleans()))


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    columns = st.lists(numeric_columns() | categorical_columns(), min_size=1, max_size=4, unique_by=lambda c: c.name)
    inputs = tuple(draw(columns))
    label = draw(NAMES.filter(lambda name: name not in [column.name for column in inputs]))
    return Schema(inputs, Classes(label, tuple(draw(st.lists(NAMES, min_size=2, max_size=3, unique=True)))))


def written(folder: Path, text: str) -> Path:
    path = folder / "schema.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    assert read_schema(written(tmp_path, TEXT)) == SCHEMA


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    assert read_schema(written(tmp_path, "\ufeff" + TEXT)) == SCHEMA


@given(schema=schemas())
def test_the_text_of_a_schema_reads_back_to_it_and_its_digest(
    schema: Schema, tmp_path_factory: pytest.TempPathFactory
) -> None:
    again = read_schema(written(tmp_path_factory.mktemp("schema"), schema_text(schema)))
    assert again == schema
    assert again.digest == schema.digest


def test_a_missing_number_is_the_lower_bound_unless_another_is_declared(tmp_path: Path) -> None:
    age = read_schema(written(tmp_path, TEXT.replace("missing = 60\n", ""))).inputs[0]
    assert isinstance(age, Numeric)
    assert age.missing == 18


def test_features_are_named_and_marked_in_the_order_of_the_columns() -> None:
    assert SCHEMA.columns == ("age", "ward=medicine", "ward=intensive care", "lactate", "sex=F", "sex=M")
    assert SCHEMA.numeric.tolist() == [True, False, False, True, False, False]
    assert SCHEMA.categorical == 2
    np.testing.assert_allclose(SCHEMA.ranges, [[18, 110], [0, 1], [0, 1], [0, np.log(31)], [0, 1], [0, 1]])


@pytest.mark.parametrize("log_capital", [False, True])
@pytest.mark.parametrize("columns", ["published", "all"])
def test_the_schema_of_adult_names_the_features_that_are_loaded(columns: adult.Columns, log_capital: bool) -> None:
    schema, loaded = adult_schema(columns, log_capital), declare(read_adult(AdultSettings(columns, log_capital)))
    assert schema.columns == loaded.train.columns == known(loaded.test).columns
    assert schema.target.classes == loaded.train.classes
    assert schema.numeric.tolist() == loaded.numeric.tolist() == [name in adult.BOUNDS for name in schema.columns]
    assert schema.categorical == loaded.categorical == {"published": 7, "all": 8}[columns]


@pytest.mark.parametrize(
    "changed",
    [
        replace(SCHEMA, target=Classes("result", ("home", "died"))),
        replace(SCHEMA, target=Classes("outcome", ("died", "home"))),
        replace(SCHEMA, target=Classes("outcome", ("home", "died", "moved"))),
        replace(SCHEMA, target=Number("outcome", 0, 1)),
        replace(SCHEMA, target=Count("outcome", 3)),
        replace(SCHEMA, client="hospital"),
        replace(SCHEMA, products=(Product(AGE, SEX),)),
        replace(SCHEMA, missing_markers=("unknown",)),
        replace(SCHEMA, most_unreadable=0.1),
        replace(SCHEMA, unconfirmed=("age",)),
        replace(SCHEMA, inputs=SCHEMA.inputs[::-1]),
        replace(SCHEMA, inputs=SCHEMA.inputs[:-1]),
        *(
            replace(SCHEMA, inputs=(*SCHEMA.inputs[:place], changed, *SCHEMA.inputs[place + 1 :]))
            for place, changed in [
                (0, replace(AGE, name="years")),
                (0, replace(AGE, lower=17)),
                (0, replace(AGE, upper=np.nextafter(110, 111))),
                (0, replace(AGE, missing=61)),
                (0, replace(AGE, log=True)),
                (0, replace(AGE, bins=4)),
                (0, replace(AGE, log_bins=4)),
                (0, replace(AGE, spline=4)),
                (0, replace(AGE, lower=0, bins=4, zero=True)),
                (0, replace(AGE, bins=4, missing=None)),
                (1, replace(WARD, name="unit")),
                (1, replace(WARD, levels=("medicine", "surgery", "intensive care"))),
                (1, replace(WARD, levels=(*WARD.levels, "day care"))),
                (1, replace(WARD, missing="surgery")),
                (1, replace(WARD, missing=None)),
                (1, replace(WARD, drop_first=False)),
                (1, replace(WARD, drop_first=False, ordinal=True)),
                (1, replace(WARD, groups=(("bed", ("surgery", "medicine")),))),
            ]
        ),
    ],
)
def test_whatever_changes_in_a_schema_changes_its_digest(changed: Schema) -> None:
    assert changed.digest != SCHEMA.digest


@given(schemas(), schemas())
def test_two_digests_are_equal_if_and_only_if_the_schemas_are(one: Schema, two: Schema) -> None:
    assert (one.digest == two.digest) == (one == two)


def test_the_way_a_number_is_written_does_not_change_the_digest() -> None:
    whole, broken = Numeric("a", 0, 1, 0), Numeric("a", -0.0, 1.0, -0.0)
    one, two = (Schema((column,), Classes("label", ("no", "yes"))) for column in (whole, broken))
    assert one == two
    assert one.digest == two.digest


def test_the_digest_is_the_same_in_every_version() -> None:
    # Of this program itself: sites with different versions of it must agree.
    assert adult_schema().digest == "ad002ba0537de9e0"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[target]", "[traget]", "the schema has an unknown key 'traget'; did you mean 'target'"),
        ("classes =", "class =", "unknown key 'class'; did you mean 'classes'"),
        ("missing = 60", "mising = 60", "unknown key 'mising'; did you mean 'missing'"),
        ("bounds = [18", "bound = [18", "unknown key 'bound'; did you mean 'bounds'"),
        ("bounds = [18, 110]", "", "column 'age' must have either bounds, .* got neither"),
        ("bounds = [18, 110]", 'bounds = [18, 110]\nlevels = ["old"]', "column 'age' must have either .* got both"),
        ("missing = 60", "drop_first = true", "column 'age', which is numeric, has an unknown key 'drop_first'"),
        ("drop_first = true", "log = true", "column 'ward', which is categorical, has an unknown key 'log'"),
        ('name = "age"', "", r"\[\[columns\]\] must have the key 'name'"),
        ('name = "age"', "name = 3", "the name of a column must be a string, got 3"),
        ("[18, 110]", "[110, 18]", "bounds of column 'age' must be two finite numbers, .* got 110 and 18"),
        ("[18, 110]", "[18, 18]", "got 18 and 18"),
        ("[18, 110]", "[18, inf]", "got 18 and inf"),
        ("[18, 110]", "[-1e308, 1.1e308]", "must be two finite numbers"),
        ("[18, 110]", f"[18, {10**400}]", "got 18 and inf"),
        ("[18, 110]", f"[{-(10**400)}, 18]", "got -inf and 18"),
        ("[18, 110]", "[18]", "must be two numbers, got 1"),
        ("[18, 110]", "[18, true]", "must be a number, got True"),
        ("[18, 110]", "18", "must be a list of numbers, got 18"),
        ("[0, 30]", "[-0.5, 30]", "at least 0 for a logarithm, got -0.5 and 30"),
        ("drop_first = true", 'drop_first = "yes"', "drop_first of column 'ward' must be true or false, got 'yes'"),
        ("log = true", "log = 1", "log of column 'lactate' must be true or false, got 1"),
        ("missing = 60", "missing = 17", "missing value of column 'age' must be within its bounds 18 and 110, got 17"),
        ("missing = 60", "missing = nan", "must be within its bounds 18 and 110, got nan"),
        ('= "medicine"', '= "medecine"', "must be one of its levels, got 'medecine'; did you mean 'medicine'"),
        ('["F", "M"]', '["F", "F"]', "levels of column 'sex' must all be different, got 'F'"),
        ('["F", "M"]', '["F", "?"]', r"stand for a missing value, got '\?'"),
        ('["F", "M"]', '["F", " M"]', "without spaces around it .* got ' M'"),
        ('["F", "M"]', "[1, 2]", "each of levels of column 'sex' must be a string, got 1"),
        ('["F", "M"]', "[]", "levels of column 'sex' must be at least 1, got 0"),
        ('["home", "died"]', '["home"]', "classes must be at least 2, got 1"),
        ('"outcome"', '"age"', "column names, .* must all be different, got 'age'"),
        ('name = "age"', 'name = "sex=F"', "features, .* must all be different, got 'sex=F'"),
        ("[[columns]]", "[columns", "is not valid TOML: .*line"),
    ],
)
def test_a_schema_that_says_nothing_clear_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(InputError, match=message):
        read_schema(written(tmp_path, TEXT.replace(old, new)))


def test_a_block_with_a_baseline_needs_another_level(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="levels of column 'ward' must be at least 2, got 1"):
        read_schema(written(tmp_path, TEXT.replace('["surgery", "medicine", "intensive care"]', '["medicine"]')))


def test_columns_as_subtables_are_refused_with_the_form_that_keeps_their_order(tmp_path: Path) -> None:
    text = TEXT[: TEXT.index("[[columns]]")] + "[columns.age]\nbounds = [18, 110]"
    with pytest.raises(InputError, match=r"each under its own \[\[columns\]\], must be a list"):
        read_schema(written(tmp_path, text))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_schema(tmp_path / "none.toml")
    (tmp_path / "other.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"as UTF-8 text, got .*other.toml. \(not UTF-8 text\)"):
        read_schema(tmp_path / "other.toml")
