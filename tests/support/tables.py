"""Tables that a test knows to be there."""

from fedspd.data import Table


def known(table: Table | None) -> Table:
    """A test set, of data that has one."""
    assert table is not None
    return table
