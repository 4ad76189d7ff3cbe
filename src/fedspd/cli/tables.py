"""Options of commands that train on a data set or on a table of one's own."""

import os
from typing import Annotated, Any, NamedTuple

import typer

from fedspd.errors import InputError
from fedspd.reading import most_like

Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="TABLE|NAME",
        help="your table: CSV, gzip or Parquet, or a pattern with a file for each client; or a data set's name",
    ),
]
SchemaFile = Annotated[str | None, typer.Option("--schema", help="of your table, see `fedspd data describe`")]
TargetColumn = Annotated[str | None, typer.Option("--target", help="the column to predict, as the schema declares it")]
ClientColumn = Annotated[str | None, typer.Option("--client", help="the column that names each record's client")]
PersonColumn = Annotated[
    str | None,
    typer.Option("--person", help="the column that says whom a record is about; their records stay together"),
]
Clients = Annotated[int | None, typer.Option("--clients", help="deal records to so many clients at random", min=1)]
TestTable = Annotated[str | None, typer.Option("--test", help="a table to measure models on; it is not protected")]
TestShare = Annotated[
    float | None, typer.Option("--test-share", help="measure models on this share of each client's records instead")
]
Epsilon = Annotated[float | None, typer.Option("--epsilon", help="total budget of every record")]
Trust = Annotated[
    str | None,
    typer.Option("--trust", help="each-upload or secure-sums, see docs/how-to/trust.md; short for privacy.trust"),
]
Delta = Annotated[float | None, typer.Option("--delta", help="failure probability")]


class Asked(NamedTuple):
    """What these options said."""

    data: str | None = None
    schema: str | None = None
    target: str | None = None
    client: str | None = None
    clients: int | None = None
    test: str | None = None
    test_share: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    trust: str | None = None
    person: str | None = None


def settings_of(asked: Asked) -> dict[str, Any]:
    """The settings that the options stand for."""
    general = {
        "privacy.epsilon": asked.epsilon,
        "privacy.delta": asked.delta,
        "privacy.trust": asked.trust,
        "partition.clients": asked.clients,
    }
    settings = {name: value for name, value in general.items() if value is not None}
    if asked.data is None:
        _refuse(asked, "needs --data", "name your table with it")
        return settings
    return settings | _of_data(asked, asked.data)


def usual_of(asked: Asked) -> dict[str, Any]:
    """What is usual of such data in place of a preset's settings: everybody takes part, with clients of their own."""
    if asked.data is None:
        return {}
    dealt = asked.clients is not None or (asked.data in _boxed() and not _names_clients(asked.data))
    return {"run.participants": None} | ({} if dealt else {"partition.kind": "own", "problem.counts": "records"})


def _of_data(asked: Asked, data: str) -> dict[str, Any]:
    from fedspd.data.own import TableSettings, own_schema

    if data in _boxed():
        _refuse(asked, f"is for a table of your own, got it with the data set {data!r}", "leave it out")
        return {"data.name": data}
    if asked.schema is None:
        match = most_like(data, _boxed())
        if match is not None and not os.path.lexists(data):
            raise InputError(f"--data must name a table or a data set, got {data!r}; did you mean {match!r}?")
        raise InputError(
            f"--data {data} needs --schema, which says what is public about the table, got none; draft one with "
            f"`fedspd data describe {data} --target COLUMN > schema.toml`, or name a data set: {', '.join(_boxed())}."
        )
    named = {"file": data, "schema": asked.schema, "target": asked.target, "client": asked.client, "test": asked.test,
             "test_share": asked.test_share, "person": asked.person}  # fmt: skip
    own = own_schema(TableSettings(**named))  # pyright: ignore[reportArgumentType]
    if asked.clients is not None and own.client is not None:
        raise InputError(
            f"records have the clients that column {own.client!r} names, got --clients {asked.clients} beside it; "
            "leave out --clients, or --client and the schema's client."
        )
    return {"data.name": "table"} | {f"data.{key}": value for key, value in named.items() if value is not None}


def _names_clients(name: str) -> bool:
    from fedspd.data import SOURCES

    return SOURCES[name].schema(SOURCES[name].settings()).client is not None


def _boxed() -> list[str]:
    from fedspd.data import SOURCES
    from fedspd.data.source import OWN_SOURCES

    return [name for name in SOURCES if name not in OWN_SOURCES]


def _refuse(asked: Asked, why: str, remedy: str) -> None:
    """Refuse options that only a table of one's own has."""
    for name in ("schema", "target", "client", "person", "test", "test_share"):
        if getattr(asked, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} {why}; {remedy}.")
