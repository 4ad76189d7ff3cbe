"""A power cut, played for real: what a disk may hold when a program's un-synced writes and names are lost.

A program runs with a small library before the system's own (`tests/cutoff/power.c`), which notes every change of a name
and copies a file's content whenever it is synced. `Disk` plays the notes up to a moment and builds what is then left:
contents as they were synced last, and names as their folders were synced last or, on disks that write names early, all
of them.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.command import environment

SOURCE = Path(__file__).parents[1] / "cutoff" / "power.c"


@dataclass
class Node:
    """A file or a folder, now and on the disk."""

    names: dict[str, "Node"] | None = None  # of a folder
    kept_names: dict[str, "Node"] = field(default_factory=dict)
    content: Path | None = None  # of a file, as it was synced last

    def at(self, path: str) -> "Node":
        """What a path leads to from here."""
        node = self
        for part in path.split("/"):
            if part:
                assert node.names is not None
                node = node.names[part]
        return node


@dataclass
class Disk:
    """Names and contents below one folder."""

    root: str
    top: Node = field(default_factory=lambda: Node({}))

    def play(self, kind: str, first: str, second: str) -> None:
        """One note."""
        folder, name = self._split(first)
        match kind:
            case "create":
                folder[name] = Node()
            case "folder":
                folder[name] = Node({})
            case "remove":
                folder.pop(name, None)
            case "rename":
                to, new = self._split(second)
                to[new] = folder.pop(name)
            case "exchange":
                to, new = self._split(second)
                to[new], folder[name] = folder[name], to[new]
            case "link":
                to, new = self._split(second)
                to[new] = folder[name]
            case "names":
                node = self.top.at(first.removeprefix(self.root))
                assert node.names is not None
                node.kept_names = dict(node.names)
            case _:
                folder[name].content = Path(second)

    def write(self, to: Path, early_names: bool) -> None:
        """Build what a power cut leaves."""
        _write(self.top, to, early_names)

    def _split(self, path: str) -> tuple[dict[str, Node], str]:
        head, _, name = path.removeprefix(self.root).rstrip("/").rpartition("/")
        names = self.top.at(head).names
        assert names is not None
        return names, name


def _write(node: Node, to: Path, early_names: bool) -> None:
    if node.names is None:
        shutil.copy(node.content, to) if node.content else to.touch()
        return
    to.mkdir()
    for name, each in (node.names if early_names else node.kept_names).items():
        _write(each, to / name, early_names)


def recorded(folder: Path, *commands: Sequence[str]) -> list[list[str]]:
    """The notes of commands at work in `folder`/root, one after the other."""
    library, log = folder / "power.so", folder / "log"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-w", "-o", library, SOURCE, "-ldl"], check=True)
    (root := folder / "root").mkdir()
    more: dict[str, Any] = {"POWER_ROOT": str(root), "POWER_LOG": str(log), "LD_PRELOAD": str(library)}
    for arguments in commands:
        command = [sys.executable, "-m", "fedspd", *arguments]
        if arguments:
            subprocess.run(command, cwd=root, env=environment(folder / "cache") | more, check=True, timeout=300)
    return [line.split("\t") for line in log.read_text().splitlines()]


def same_tree(first: Path, second: Path) -> bool:
    """Whether two folders hold the same."""
    found = [
        {path.relative_to(root): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}
        for root in (first, second)
    ]
    return found[0] == found[1] and os.path.exists(first)
