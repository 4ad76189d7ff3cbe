"""Rewrite the tree in docs/architecture.md: files as git lists them; descriptions stay, new ones from docstrings."""

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
TREE = re.compile(r"^```\nsrc/fedspd/\n.*?^```$", re.DOTALL | re.MULTILINE)
WIDTH = 30  # columns before a description


def kept(tree: str) -> dict[str, str]:
    """Descriptions by path, folders included."""
    found: dict[str, str] = {}
    folders: list[str] = []
    for line in tree.splitlines()[1:-1]:
        depth, (name, *words) = (len(line) - len(line.lstrip())) // 2, line.split(maxsplit=1)
        folders = folders[:depth]
        found["".join([*folders, name])] = words[0] if words else ""
        if name.endswith("/"):
            folders.append(name)
    return found


def described(path: str) -> str:
    """The first line of a module's docstring, shortened to its first clause."""
    if not path.endswith(".py") or path.endswith("__init__.py"):
        return ""
    text = ast.get_docstring(ast.parse((ROOT / path).read_text())) or ""
    first = re.split(r"[.;] |\.$|: ", text.splitlines()[0] if text else "")[0]
    return first[:1].lower() + first[1:]


def main() -> None:
    """Write the page."""
    page = PAGE.read_text()
    found = TREE.search(page)
    assert found, f"{PAGE} has no tree"
    before = kept(found[0])
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "src/fedspd"], capture_output=True, text=True, check=True
    )
    paths = sorted(listed.stdout.split(), key=lambda path: [(part != "__init__.py", part) for part in path.split("/")])
    lines, open_folders = ["src/fedspd/"], ["src/fedspd/"]
    for path in sorted(paths, key=lambda path: ("/" in path.removeprefix("src/fedspd/"), 0)):
        parts = path.removeprefix("src/fedspd/").split("/")
        for depth in range(1, len(parts)):
            folder = "src/fedspd/" + "/".join(parts[:depth]) + "/"
            if folder not in open_folders:
                open_folders.append(folder)
                lines.append(entry(depth, f"{parts[depth - 1]}/", before.get(folder, "")))
        lines.append(entry(len(parts), parts[-1], before.get(path) or described(path)))
    PAGE.write_text(page.replace(found[0], "\n".join(["```", *lines, "```"])))


def entry(depth: int, name: str, words: str) -> str:
    """One line of the tree."""
    return f"{'  ' * depth + name:<{WIDTH - 1}} {words}".rstrip()


if __name__ == "__main__":
    main()
