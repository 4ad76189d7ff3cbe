"""Commands within this process, on a small table of somebody's own."""

from pathlib import Path

from fedspd import cli

SCHEMA = """
[target]
column = "y"
classes = ["no", "yes"]
[[columns]]
name = "age"
bounds = [0, 100]
"""
OWN = (
    "--data", "t.csv", "--schema", "schema.toml", "--clients", "3", "--test-share", "0.2", "--set", "run.rounds=2",
)  # fmt: skip
BUDGET = ("--epsilon", "5", "--delta", "1e-3")


def command(*arguments: str) -> None:
    """Call a command as the shell would; what it raises comes through."""
    cli.app(arguments, standalone_mode=False)


def write_own_table(folder: Path) -> None:
    """A table and its schema."""
    rows = [f"{place % 97},{('no', 'yes')[place % 97 > 40]},{place}" for place in range(240)]
    (folder / "t.csv").write_text("\n".join(["age,y,person", *rows]) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
