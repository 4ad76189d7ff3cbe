"""Write docs/dependencies.md: what an installation brings with it, and under which licenses, as installed here."""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "dependencies.md"
EXTRAS = ("flower", "jax", "onnx")
LONGEST = 60  # characters of a license's name; what is longer is its whole text
HEAD = """# Dependencies

What `pip install` brings with it: for the library alone, and what each extra adds. Licenses are those that the packages
declare in their metadata, at the versions of `constraints.txt`; their own files have the last word.
`python scripts/write_dependencies.py` writes this page from what is installed, on Linux, and
`tests/security/test_dependencies.py` holds the two against each other.

Whether vulnerabilities of these versions are known is not asked by a test, which has no network. With one,
`python scripts/ask_advisories.py INDEX` asks a package index that passes on the advisories of the Python Packaging
Authority, at the address under which it answers in JSON. On 19 November 2026 the index at hand answered for the newest
version of a package alone. None of these had a known vulnerability: 26 of the 34 packages of the library, 33 of 44 of
`flower`, 2 of 4 of `jax`, 2 of 3 of `onnx`, 34 of 36 for development. About the others, held back by Python 3.11, by
Flower or by `dp-accounting`, or released anew since, there was no answer: attrs, click, contourpy, deprecated, fastapi,
flwr, grpcio-health-checking, iterators, jax, jaxlib, numpy, packaging, protobuf, pycryptodome, rich, scipy, sqlalchemy,
starlette, typer, uv, uvicorn; ruff, selenium. `pip-audit` asks for each version at its own address, which that index
does not have, or asks other databases, which could not be reached. With a whole network, `pip install pip-audit` and
then `pip-audit --requirement constraints.txt` asks about all of them.
"""


class Row(NamedTuple):
    """A package, who asks for it, and its license."""

    package: str
    asked_by: str
    license: str


def packages() -> dict[str, dict[str, Row]]:
    """By extra, what it adds to the library; the empty one is the library alone."""
    library = {row.package: row for row in _closure("", {"fedspd"})}
    found = {"": library} | {
        extra: {row.package: row for row in _closure(extra, {"fedspd", *library})} for extra in EXTRAS
    }
    return {extra: dict(sorted(rows.items())) for extra, rows in found.items()}


def license_of(package: str) -> str:
    """As the metadata declare it: an expression, a short text, or a classifier."""
    data = distribution(package).metadata
    (expression, *_), (text, *_) = (data.get_all(key) or [""] for key in ("License-Expression", "License"))
    if expression:
        return expression
    if text and text != "UNKNOWN" and "\n" not in text and len(text) <= LONGEST:
        return text
    classes = [one.rpartition(":: ")[2] for one in data.get_all("Classifier") or () if one.startswith("License ::")]
    return ", ".join(classes) or "not declared"


def page(found: Mapping[str, Mapping[str, Row]]) -> str:
    """The whole document."""
    parts = [HEAD]
    for extra, rows in found.items():
        title = f"`fedspd[{extra}]` adds" if extra else "`fedspd`"
        lines = [f"| {row.package} | {row.asked_by} | {row.license} |" for row in rows.values()]
        parts.append(
            "\n".join([f"## {title}\n", "| Package | Asked for by | License |", "|---|---|---|", *lines]) + "\n"
        )
    return "\n".join(parts)


def _closure(extra: str, known: set[str]) -> Iterator[Row]:
    """What the library or an extra needs and what that needs in turn, each once; what is known is left out."""
    waiting, seen = [("fedspd", extra)], set(known)
    while waiting:
        asking, its_extra = waiting.pop(0)
        for needed in _needed(asking, its_extra):
            name = canonicalize_name(needed.name)
            if name in seen:
                continue
            seen.add(name)
            yield Row(name, asking, license_of(name))
            waiting += [(name, each) for each in ("", *sorted(needed.extras))]


def _needed(package: str, extra: str) -> Iterator[Requirement]:
    """The requirements of an installed package that hold here; those of an extra alone where one is named."""
    for text in distribution(package).requires or ():
        needed = Requirement(text)
        of_extra = bool(needed.marker and re.search(r"\bextra\b", str(needed.marker)))
        if of_extra == bool(extra) and (needed.marker is None or needed.marker.evaluate({"extra": extra})):
            try:
                distribution(needed.name)
            except PackageNotFoundError:
                raise SystemExit(
                    f"expected {needed.name}, which {package} needs, got no such package; install it."
                ) from None
            yield needed


if __name__ == "__main__":
    PAGE.write_text(page(packages()))
