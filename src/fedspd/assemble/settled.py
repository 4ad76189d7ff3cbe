"""Fill in what settings leave to the table and to chance: the number of clients, rounds, and the seed."""

import secrets
from dataclasses import replace

from fedspd.assemble.gate import SECRET
from fedspd.config import Config
from fedspd.data import Cells, Table
from fedspd.data.dataset import CLIENT
from fedspd.errors import InputError

SEED_BITS = 128


def draw_seed() -> int:
    """From the operating system; larger than any that is chosen."""
    return SECRET + secrets.randbits(SEED_BITS)


def settle(config: Config, cells: Cells, drawn: int | None = None) -> Config:
    """The configuration with nothing left open that a run needs to be the same for everybody in it.

    Args:
        config: what is left open in it is filled in.
        cells: the records.
        drawn: the seed that `draw_seed` gave before, where none is chosen; None: a new one.
    """
    own = config.partition.kind == "own"
    clients = len(own_clients(cells.train)) if own else config.partition.clients
    settled = config
    settled = replace(settled, partition=replace(config.partition, clients=clients))
    if config.run.seed is None:
        settled = replace(settled, run=replace(settled.run, seed=draw_seed() if drawn is None else drawn))
    return settled


def own_clients(table: Table) -> tuple[str, ...]:
    """Names of the clients that a table brings."""
    if CLIENT not in table.attributes:
        raise InputError(
            "partition.kind = own needs a table that names the client of each record, got one that does not; name the "
            "column with data.client (--client), give a file for each client, or deal the records with another "
            "partition.kind (--clients)."
        )
    return table.attributes[CLIENT].levels
