"""From an estimator's parameters to a finished run."""

from collections.abc import Mapping
from contextlib import ExitStack
from math import inf
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from fedspd.algorithms import METHODS
from fedspd.assemble import Run, execute, prepare_experiment
from fedspd.assemble.records.memory import of_records
from fedspd.data import Category, Cells, Schema, Table, encode
from fedspd.data.dataset import CLIENT
from fedspd.data.frames import named_by, values_of
from fedspd.errors import InputError
from fedspd.estimators.inputs import as_number
from fedspd.privacy.ledger import Ledger
from fedspd.target import Classes

GROUPS = "groups"
"""What tells clients apart on a ledger, unless a schema has a name for it."""
PERSONS = "persons"
"""What a schema calls the column that `persons` would be."""
OWN = {
    "algorithm.name": "method",
    "data.name": "X",
    "data.split": "X without the records to hold out",
    "partition.clients": "clients",
    "partition.kind": "groups or clients",
    "privacy.budget": "epsilon, which is of the whole fit",
    "privacy.delta": "delta",
    "privacy.epsilon": "epsilon",
    "privacy.noise_multiplier": "epsilon",
    "privacy.unit": "persons of fit, which are then what is protected",
    "problem.loss": "loss",
    "run.seed": "random_state",
}
"""Settings that have a parameter of their own."""


def clients_of(estimator: Any, groups: Any, records: int) -> Category | None:
    """Which client each record belongs to, or None where they are dealt at random."""
    number = estimator.clients
    if groups is None and number is None:
        raise InputError(
            "each record must have a client, got neither groups nor clients; pass fit(..., groups=names), or clients=N "
            "to deal the records at random. In a search or a cross-validation groups reach fit by metadata routing: "
            "sklearn.set_config(enable_metadata_routing=True), then estimator.set_fit_request(groups=True), then "
            "params={'groups': names}, or fit(..., groups=names) of a search."
        )
    if groups is not None:
        if number is not None:
            raise InputError(
                f"clients must be named by groups or dealt at random, got groups and clients={number}; pick one."
            )
        category = named_by(values_of(groups), "client")
        if len(category.codes) != records:
            raise InputError(f"groups must name {records} clients, one for each record, got {len(category.codes)}.")
        return category
    if estimator.ledger is not None:
        raise InputError(
            f"a ledger keeps accounts of clients by name, got clients={number}, which are dealt at random; pass groups "
            "to fit, or leave out the ledger."
        )
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 1 <= number <= records:
        raise InputError(
            f"clients must be a whole number from 1 to the number of records, got clients={number!r} and "
            f"n_samples={records}; every client needs a record."
        )
    return None


def persons_of(persons: Any, records: int) -> Category | None:
    """Whom each record is about, or None where nobody says so."""
    if persons is None:
        return None
    category = named_by(values_of(persons), "person")
    if len(category.codes) != records:
        raise InputError(f"persons must name {records} of them, one for each record, got {len(category.codes)}.")
    return category


def train(
    estimator: Any, found: Mapping[str, np.ndarray], labels: np.ndarray, schema: Schema, clients: Category | None,
    persons: Category | None = None,
) -> Run:  # fmt: skip
    """Run the method on the cells of declared columns, charged to the ledger that the estimator was given."""
    target = schema.target
    attributes = {} if clients is None else {CLIENT: clients}
    told = None if isinstance(target, Classes) else target
    table = Table(encode(found, schema), labels, schema.columns, target.classes, attributes, told, found, persons)
    spent = {f"privacy.{name}": as_number(name, getattr(estimator, name)) for name in ("epsilon", "delta")}
    cells = Cells(table, None, schema)
    unit = {} if persons is None else {"privacy.unit": "person"}
    config = of_records(cells, _overrides(estimator, clients is not None) | unit, spent)
    with ExitStack() as stack:

        def opened() -> Ledger:
            return stack.enter_context(Ledger(estimator.ledger))

        open_ledger = None if estimator.ledger is None else opened
        return execute(prepare_experiment(config, open_ledger, cells, estimator.ledger_epsilon))


def _overrides(estimator: Any, own: bool) -> dict[str, Any]:
    settings: Mapping[str, Any] = {} if estimator.settings is None else estimator.settings
    if not isinstance(settings, Mapping):
        raise InputError(f"settings must be a dictionary by 'section.key', got {settings!r}; pass one.")
    if not isinstance(estimator.method, str):
        raise InputError(f"method must be a name that fedspd methods lists, got {estimator.method!r}; name one.")
    for name in settings:
        if name in OWN:
            raise InputError(f"settings must leave {name} to its own parameter, got it; use {OWN[name]}.")
    if METHODS.find(estimator.method).guarantee == "none" and estimator.epsilon != inf:
        raise InputError(
            f"the method {estimator.method!r} adds no noise, expected epsilon=float('inf') with it, got "
            f"{estimator.epsilon!r}; choose a method with privacy, or say so."
        )
    return {
        "algorithm.name": estimator.method,
        **({"partition.kind": "own"} if own else {"partition.clients": int(estimator.clients)}),
        **({} if estimator.loss is None else {"problem.loss": estimator.loss}),
        "run.seed": _seed(estimator.random_state),
        **settings,
    }


def _seed(random_state: Any) -> int | None:
    """None draws from the operating system; anything else is for science."""
    if random_state is None:
        return None
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
