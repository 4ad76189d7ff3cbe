"""Whatever a program hands over that is wrong: an `InputError`, whose sentence says what was expected and got."""

from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedspd
from fedspd import FedSPDClassifier, FedSPDRegressor, InputError
from fedspd.config import parse
from fedspd.data import parse_schema
from fedspd.privacy.accounting import FixedSize, Gaussian, Laplace, Poisson, calibrate, spent
from fedspd.privacy.ledger import Budget
from fedspd.results import read_run
from fedspd.scoring.model import load_model
from fedspd.testing import Statement, assert_statement_holds, audit_mechanism

X, Y = np.linspace(0, 1, 40).reshape(20, 2), np.arange(20) % 2
NOWHERE = "/nonexistent/x"
FRAME = pd.DataFrame({"age": [1, 2], "y": ["no", "yes"]})
SCHEMA_OF_AGE = parse_schema(
    {"target": {"column": "y", "classes": ["no", "yes"]}, "columns": [{"name": "age", "bounds": [0, 100]}]}
)
Call = Callable[[], Any]


def run(source: Any, settings: Any = None) -> Call:
    return lambda: fedspd.run(source, settings)


def proved(name: str, value: Any) -> Call:
    return run("proved", {name: value})


def fit(y: Any = Y, groups: Any = None, **changes: Any) -> Call:
    usual = {"epsilon": 1.0, "delta": 1e-5, "bounds": (0, 1), "clients": 2}
    return lambda: FedSPDClassifier(**usual | changes).fit(X, y, groups)


def regress(**changes: Any) -> Call:
    usual = {"epsilon": 1.0, "delta": 1e-5, "bounds": (0, 1), "clients": 2, "target_bounds": (0, 1)}
    return lambda: FedSPDRegressor(**usual | changes).fit(X, Y.astype(float))


RUNS: dict[str, tuple[Call, str]] = {
    "a preset that is none": (run("provd"), "got 'provd' (No such file or directory); did you mean 'proved'?"),
    "nothing to run": (
        run(None),
        "expected a preset, a TOML file, a configuration, a method or a data frame, got NoneType",
    ),
    "a number to run": (run(3), "a method or a data frame, got int."),
    "a matrix to run": (run(X), "a method or a data frame, got ndarray."),
    "a missing file": (run(Path(NOWHERE)), "(No such file or directory); known are proved, published."),
    "settings in one text": (
        run("proved", "run.seed=1"),
        "settings must be a dictionary by 'section.key', got 'run.se",
    ),
    "settings in a list": (run("proved", [1]), "settings must be a dictionary by 'section.key', got [1]; pass one."),
    "a setting named by a number": (run("proved", {3: 1}), "a setting must be named section.key, got 3; for example"),
    "a function": (proved("run.seed", print), "run.seed must be a whole number, got <built-in function print>."),
    "no number": (proved("privacy.epsilon", nan), "privacy.epsilon must be at least 1e-06 and at most 10000, or inf"),
    "NumPy's no number": (proved("privacy.epsilon", np.float64(nan)), "or inf, got nan."),
    "an array": (proved("run.seed", np.arange(3)), "run.seed must be a whole number, got array([0, 1, 2])."),
    "NumPy's half": (proved("run.rounds", np.float64(0.5)), "run.rounds must be a whole number, got np.float64(0.5)."),
    "a complex number": (proved("privacy.epsilon", 1j), "privacy.epsilon must be a number, got 1j."),
    "bytes": (proved("algorithm.name", b"fedspd"), "algorithm.name must be a string, got b'fedspd'."),
    "a set": (proved("algorithm.name", {"fedspd"}), "algorithm.name must be a string, got {'fedspd'}."),
    "true": (proved("privacy.epsilon", True), "privacy.epsilon must be a number, got True."),
    "a number as text": (proved("privacy.epsilon", "1"), "privacy.epsilon must be a number, got '1'."),
    "a configuration that is a list": (lambda: parse([]), "a configuration must be a table of sections, got []"),  # pyright: ignore
    "no configuration": (lambda: parse(None), "a configuration must be a table of sections, got None"),  # pyright: ignore
    "a section of text": (lambda: parse({"run": "x"}), "[run] must be a table of keys, got 'x'"),
    "a section named by a number": (lambda: parse({3: {}}), "unknown section [3]; known are data"),  # pyright: ignore
    "no method": (lambda: fedspd.register(None), "expected a fedspd Method, got None"),  # pyright: ignore
    "a taken loss": (lambda: fedspd.register_loss("softmax", print), "got 'softmax', which is taken"),  # pyright: ignore
    "a taken partition": (lambda: fedspd.register_partition("iid", print), "got 'iid', which is taken"),  # pyright: ignore
    "no run folder": (lambda: read_run(Path(NOWHERE)), "got /nonexistent/x, which is no folder; name one that"),
    "a name with a character 0": (run("a\0b"), "got 'a\\x00b' (no name of a file); known are proved, published."),
    "a schema that is a number": (
        lambda: fedspd.run(FRAME, schema=3),  # pyright: ignore
        "expected a schema in TOML, as UTF-8 text, got 3;",
    ),
    "two columns of one name": (
        lambda: fedspd.run(pd.DataFrame([[1, 2]], columns=["age", "age"]), schema=SCHEMA_OF_AGE),
        "the columns of a data frame must all be different, got 'age' more than once; rename one.",
    ),
    "columns 1 and '1'": (
        lambda: fedspd.run(pd.DataFrame([[1, 2]], columns=[1, "1"]), schema=SCHEMA_OF_AGE),
        "the columns of a data frame must all be different, got '1' more than once; rename one.",
    ),
    "columns that are numbers": (
        lambda: fedspd.run(pd.DataFrame([[1, 2]]), schema=SCHEMA_OF_AGE),
        "the data frame must have the declared column 'age', got 0, 1; rename one.",
    ),
    "no model": (lambda: load_model(NOWHERE), "expected the folder of a finished run, got '/nonexistent/x'"),
}
FITS: dict[str, tuple[Call, str]] = {
    "epsilon 0": (fit(epsilon=0), "privacy.epsilon must be at least 1e-06 and at most 10000, or inf, got 0.0."),
    "epsilon 1e300": (fit(epsilon=1e300), "privacy.epsilon must be at least 1e-06 and at most 10000, or inf"),
    "epsilon in text": (fit(epsilon="1"), "epsilon must be a number, got '1'; pass one."),
    "no epsilon": (fit(epsilon=None), "epsilon must be a number, got None; pass one."),
    "epsilon inf": (fit(epsilon=inf), "privacy.epsilon must be finite for a proved guarantee, got inf"),
    "delta 1": (fit(delta=1.0), "privacy.delta must be above 0 and below 1, got 1.0."),
    "delta 0.1": (fit(delta=0.1), "privacy.delta must be below 1 / records for a proved claim, 0.05 with 20 records"),
    "a misspelled method": (fit(method="fedsdp"), "got 'fedsdp'; did you mean 'fedspd'?"),
    "no bounds": (fit(bounds=None), "columns of numbers must have bounds that are publicly known"),
    "bounds turned": (fit(bounds=(1, 0)), "must be two finite numbers, the lower one first, got 1 and 0"),
    "one bound": (fit(bounds=(1,)), "bounds must be two numbers, got (1,); write (lower, upper)."),
    "a bound of nan": (fit(bounds=(0, nan)), "two finite numbers, the lower one first, got 0 and nan"),
    "bounds in text": (fit(bounds="all"), "bounds must be two numbers, a dictionary or 'clip', got 'all'"),
    "no clients": (fit(clients=0), "clients must be a whole number from 1 to the number of records, got clients=0"),
    "clients in text": (fit(clients="two"), "clients must be a whole number from 1 to the number of records"),
    "clients without records": (fit(clients=21), "got clients=21 and n_samples=20; every client needs a record."),
    "clients and groups": (
        fit(groups=Y),
        "clients must be named by groups or dealt at random, got groups and clients=2",
    ),
    "neither": (fit(clients=None), "each record must have a client, got neither groups nor clients"),
    "few groups": (fit(clients=None, groups=Y[:5]), "groups must name 20 clients, one for each record, got 5."),
    "one class": (fit(y=np.zeros(20)), "a classifier needs at least two classes, got 1 class"),
    "a misspelled setting": (fit(settings={"run.sead": 1}), "unknown key run.sead; did you mean 'seed'?"),
    "settings in text": (
        fit(settings="run.seed=1"),
        "settings must be a dictionary by 'section.key', got 'run.seed=1'",
    ),
    "a loss of numbers": (fit(loss="huber"), "problem.loss = huber predicts a number, got 2 classes"),
    "a misspelled loss": (fit(loss="softmx"), "got 'softmx'; did you mean 'softmax'?"),
    "one declared class": (fit(classes=[0]), "a classifier needs at least two classes, got 1 class"),
    "other classes": (
        fit(classes=["a", "b"]),
        "y must hold the declared classes a, b only, got something else in row 0",
    ),
    "preprocessing": (fit(preprocessing="none"), "preprocessing must be one of private, public, got 'none'"),
    "a ledger of nobody": (fit(ledger=NOWHERE), "a ledger keeps accounts of clients by name, got clients=2"),
    "half a ledger": (fit(ledger_epsilon=3), "ledger_epsilon belongs to a ledger, got it without one"),
    "a missing schema": (fit(schema=NOWHERE, bounds=None), "expected a schema in TOML, as UTF-8 text, got '/nonexist"),
    "schema and bounds": (fit(schema=NOWHERE), "bounds stand in the schema, got bounds beside it"),
    "no target bounds": (regress(target_bounds=None), "expected target_bounds=(lower, upper) of a number or most="),
    "target bounds turned": (regress(target_bounds=(1, 0)), "of the target 'target' must be two finite numbers"),
}
ACCOUNTS: dict[str, tuple[Call, str]] = {
    "no noise": (
        lambda: Gaussian(0),
        "noise_multiplier must be a positive finite number (noise over sensitivity), got 0",
    ),
    "noise in text": (lambda: Gaussian("1"), "must be a positive finite number (noise over sensitivity), got '1'"),  # pyright: ignore
    "hardly any noise": (lambda: Gaussian(1e-300), "noise_multiplier must be from 0.01 to 1e+12, got 1e-300"),
    "nothing but noise": (lambda: Gaussian(1e300), "noise_multiplier must be from 0.01 to 1e+12, got 1e+300"),
    "another relation": (lambda: Gaussian(1.0, "add-one"), "relation must be one of ('replace-one', 'zero-out')"),  # pyright: ignore
    "a rate of 2": (lambda: Poisson(1.0, 2.0), "rate must lie in (0, 1], got 2.0"),
    "steps without records": (lambda: Poisson(1.0, 0.5, 2), "records must be a whole number of at least 1, got None"),
    "6 draws of 5": (lambda: FixedSize(1.0, 5, 6), "drawn must be at most records = 5, got 6"),
    "half a draw": (lambda: FixedSize(1.0, 5, 2.5), "drawn must be a whole number of at least 1, got 2.5"),  # pyright: ignore
    "a negative jacobian": (lambda: Laplace(1.0, -1.0), "jacobian must be finite and at least 0, got -1.0"),
    "a history of text": (lambda: spent("abc", 1e-5), "a history must be counts by event, got 'abc'"),  # pyright: ignore
    "a history of a number": (lambda: spent(3, 1e-5), "a history must be counts by event, got 3"),  # pyright: ignore
    "-1 releases": (lambda: spent({Gaussian(1.0): -1}, 1e-5), "must be a whole number of at least 0, got -1"),
    "half a release": (lambda: spent({Gaussian(1.0): 0.5}, 1e-5), "whole number of at least 0, got 0.5"),  # pyright: ignore
    "a release by itself": (
        lambda: spent([Gaussian(1.0)], 1e-5),  # pyright: ignore
        "a history must be counts by event, got Gaussian(noise_multiplier=1.0, relation='replace-one') in it",
    ),
    "no event": (lambda: calibrate(None, 1, 1.0, 1e-5), "make_event must be an event's class or a function, got None"),  # pyright: ignore
    "10^400 records": (lambda: FixedSize(1.0, 10**400, 5), "records must be at most 1e+12, got a longer number"),
    "10^30 dimensions": (
        lambda: Laplace(1.0, dimension=10**30, directions=1),
        "dimension must be at most 1e+12, got 1e+30",
    ),
    "hardly a rate": (lambda: Poisson(1.0, 5e-324), "rate must be at least 1e-100, got 5e-324"),
    "10^30 releases": (
        lambda: calibrate(Gaussian, 10**30, 1.0, 1e-5),
        "participations must be at most 1e+12, got 1e+30",
    ),
    "delta 0": (lambda: spent({Gaussian(1.0): 1}, 0.0), "delta must lie in (0, 1), got 0.0; 1e-5 is usual."),
    "delta in text": (lambda: spent({Gaussian(1.0): 1}, "x"), "delta must lie in (0, 1), got 'x'"),  # pyright: ignore
    "an accountant": (lambda: spent({Gaussian(1.0): 1}, 1e-5, "prv"), "accountant must be one of"),  # pyright: ignore
    "infinite epsilon": (lambda: calibrate(Gaussian, 1, inf, 1e-5), "epsilon must be finite and at least 0, got inf"),
    "no release": (lambda: calibrate(Gaussian, 0, 1.0, 1e-5), "expected at least one participation and room for it"),
    "1.5 releases": (lambda: calibrate(Gaussian, 1.5, 1.0, 1e-5), "whole number of at least 0, got 1.5"),  # pyright: ignore
    "a budget below 0": (lambda: Budget(-1.0, 1e-5), "epsilon must be finite and at least 0, got -1.0"),
    "a budget of 1e300": (lambda: Budget(1e300, 1e-5), "epsilon must be at most 1e+06, got 1e+300"),
    "a budget with delta 1": (lambda: Budget(1.0, 1.0), "delta must lie in (0, 1), got 1.0"),
}
MECHANISM = lambda records, rng: rng.standard_normal()  # noqa: E731
KIT: dict[str, tuple[Call, str]] = {
    "a negative sensitivity": (
        lambda: Statement(epsilon=1.0, sensitivity=-1.0), "sensitivity must be at least 0 and finite, got -1.0"
    ),
    "other neighbors": (
        lambda: Statement(epsilon=1.0, neighbors="remove"),  # pyright: ignore
        "neighbors must be one of replace-one, add-or-remove, zero-out, got 'remove'",
    ),
    "mu in text": (lambda: Statement(mu="1", delta=1e-5), "mu must be a number, got '1'"),  # pyright: ignore
    "delta None": (lambda: Statement(epsilon=1.0, delta=None), "delta must be a number, got None"),  # pyright: ignore
    "epsilon of nan": (lambda: Statement(epsilon=nan), "epsilon or mu must be positive and finite, got nan"),
    "no function": (
        lambda: audit_mechanism(3, Statement(epsilon=1.0), X), "expected a function of records and a generator"  # pyright: ignore
    ),
    "no statement": (lambda: assert_statement_holds(MECHANISM, 1.0, X), "and a Statement, got <function"),  # pyright: ignore
    "nothing released": (
        lambda: audit_mechanism(lambda records, rng: None, Statement(epsilon=1.0), X),
        "a mechanism must release finite numbers, at least one, got None",
    ),
    "text released": (
        lambda: audit_mechanism(lambda records, rng: "a", Statement(epsilon=1.0), X), "at least one, got 'a'"
    ),
    "no number released": (
        lambda: assert_statement_holds(lambda records, rng: nan, Statement(epsilon=1.0, sensitivity=1.0), X),
        "a mechanism must release finite numbers, at least one, got nan",
    ),
    "an empty release": (
        lambda: audit_mechanism(lambda records, rng: np.zeros(0), Statement(epsilon=1.0), X), "at least one, got array"
    ),
    "equal records": (
        lambda: audit_mechanism(MECHANISM, Statement(epsilon=1.0), np.zeros((5, 2))),
        "records must differ, or there is nothing to tell apart, got equal ones",
    ),
}  # fmt: skip
TABLE = {f"{what}: {name}": case for what, cases in (("run", RUNS), ("fit", FITS), ("account", ACCOUNTS), ("kit", KIT))
         for name, case in cases.items()}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_what_is_handed_over_wrong_is_refused_in_a_sentence(name: str) -> None:
    call, says = TABLE[name]
    with pytest.raises(InputError) as refused:
        call()
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "value", [np.float32(0.5), np.float64(0.5), np.array(0.5), np.int64(1)], ids=lambda value: repr(value)
)
def test_numbers_of_numpy_are_settings(value: Any) -> None:
    settings = {"privacy.epsilon": value, "run.rounds": np.int64(1), "metrics.criterion": np.False_,
                "data.name": np.str_("digits"), "partition.clients": np.int32(3), "run.participants": None}  # fmt: skip
    found = fedspd.run("proved", settings)
    assert found.summary.epsilon == pytest.approx(float(value))
    assert found.summary.participants == 3, "None unsets what the preset has"
