"""The embedded Adult data is the published data, and is encoded as the published experiments need it."""

import hashlib
from importlib import resources

import numpy as np
import pytest

from fedspd.data import adult
from fedspd.errors import InputError

TRAIN, TEST = adult.raw()


def original_lines(records: dict[str, np.ndarray], end: str) -> str:
    columns = []
    for name, values in records.items():
        levels = (*adult.LEVELS.get(name, adult.CLASSES),)
        if name in adult.BOUNDS:
            columns.append([str(value) for value in values])
        else:
            columns.append(["?" if code == adult.MISSING else levels[code] for code in values])
    return "".join(", ".join(fields) + end for fields in zip(*columns, strict=True))


# The two sums are those of the original files, which scripts/embed_adult.py checks as well.
def test_the_training_file_is_rebuilt_byte_for_byte() -> None:
    text = original_lines(TRAIN, "\n") + "\n"
    expected = "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
    assert hashlib.sha256(text.encode()).hexdigest() == expected


def test_the_test_file_is_rebuilt_byte_for_byte() -> None:
    text = "|1x3 Cross validator\n" + original_lines(TEST, ".\n") + "\n"
    expected = "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"
    assert hashlib.sha256(text.encode()).hexdigest() == expected


def test_the_embedded_file_is_at_most_a_megabyte() -> None:
    assert len((resources.files("fedspd.data") / "adult.xz").read_bytes()) <= 1_000_000


def test_the_attribution_names_authors_identifier_and_license() -> None:
    text = (resources.files("fedspd.data") / "ATTRIBUTION.md").read_text()
    for part in ("Becker", "Kohavi", "10.24432/C5XW20", "CC BY 4.0"):
        assert part in text


def test_rows_and_classes_are_counted_as_in_adult_names() -> None:
    train, test = adult.load()
    assert (len(train), len(test)) == (32_561, 16_281)
    assert np.bincount(train.labels).tolist() == [24_720, 7_841]
    assert np.bincount(test.labels).tolist() == [12_435, 3_846]


def test_2399_training_rows_have_a_missing_value() -> None:
    missing = {name: TRAIN[name] == adult.MISSING for name in adult.LEVELS}
    assert np.logical_or.reduce(list(missing.values())).sum() == 2_399
    counts = {name: int(rows.sum()) for name, rows in missing.items() if rows.any()}
    assert counts == {"workclass": 1_836, "occupation": 1_843, "native-country": 583}


def test_the_declared_imputation_is_the_most_frequent_training_value() -> None:
    for name, level in adult.IMPUTED.items():
        known = TRAIN[name][TRAIN[name] != adult.MISSING]
        assert adult.LEVELS[name][np.bincount(known).argmax()] == level


def test_no_missing_value_is_left_after_imputation() -> None:
    for table in adult.load():
        for name, category in table.attributes.items():
            assert category.levels == adult.LEVELS[name]
            assert category.codes.max() < len(category.levels)


def test_every_record_lies_within_the_declared_bounds() -> None:
    for records in (TRAIN, TEST):
        for name, (lowest, highest) in adult.BOUNDS.items():
            assert lowest <= records[name].min()
            assert records[name].max() <= highest


def test_education_num_says_the_same_as_education() -> None:
    pairs = set(zip(TRAIN["education"].tolist(), TRAIN["education-num"].tolist(), strict=True))
    assert len(pairs) == 16 == len(adult.LEVELS["education"])


def test_the_published_columns_are_81_without_a_first_level() -> None:
    train, test = adult.load("published")
    assert train.columns == test.columns
    assert len(train.columns) == train.features.shape[1] == 81
    assert not {"fnlwgt", "workclass=Private", "sex=Female", "education=Bachelors"} & set(train.columns)


def test_all_columns_are_105_and_each_one_hot_block_sums_to_one() -> None:
    train, _ = adult.load("all")
    assert train.features.shape == (32_561, 105)
    for name in adult.LEVELS:
        block = [i for i, column in enumerate(train.columns) if column.startswith(f"{name}=")]
        assert (train.features[:, block].sum(axis=1) == 1).all()


def test_the_first_training_record_is_encoded_as_its_line_reads() -> None:
    # 39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male,
    # 2174, 0, 40, United-States, <=50K
    train, _ = adult.load("all")
    row = dict(zip(train.columns, train.features[0], strict=True))
    assert {name: value for name, value in row.items() if value} == {
        "age": 39,
        "workclass=State-gov": 1,
        "fnlwgt": 77_516,
        "education=Bachelors": 1,
        "education-num": 13,
        "marital-status=Never-married": 1,
        "occupation=Adm-clerical": 1,
        "relationship=Not-in-family": 1,
        "race=White": 1,
        "sex=Male": 1,
        "capital-gain": 2_174,
        "hours-per-week": 40,
        "native-country=United-States": 1,
    }
    assert train.classes[train.labels[0]] == "<=50K"


def test_log_capital_takes_the_logarithm_of_gain_and_loss_and_of_nothing_else() -> None:
    plain, logged = adult.load()[0], adult.load(log_capital=True)[0]
    for i, column in enumerate(plain.columns):
        expected = plain.features[:, i]
        if column in ("capital-gain", "capital-loss"):
            expected = np.log1p(expected)
        np.testing.assert_array_equal(logged.features[:, i], expected)


def test_the_bounds_follow_the_logarithm() -> None:
    schema = adult.adult_schema(log_capital=True)
    upper = dict(zip(schema.columns, schema.ranges[:, 1].tolist(), strict=True))
    assert [upper[name] for name in ("age", "capital-gain", "sex=Male")] == pytest.approx([90, np.log(100_000), 1])


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(InputError, match="columns must be one of published, all, got 'some'"):
        adult.load("some")  # pyright: ignore[reportArgumentType]
