"""Ask a package index whether vulnerabilities of the locked versions are known.

The index is named by the address under which it answers for NAME in VERSION at NAME/VERSION/json. One that does not is
asked at NAME/json, which is about the newest version alone; what is locked to an older one then stays without answer.
Exit code 1 where a vulnerability is known.

Example: python scripts/ask_advisories.py https://INDEX/pypi
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).parent.parent))
from scripts.write_dependencies import ROOT, packages

SECONDS = 60.0  # for one answer


class Answer(NamedTuple):
    """What an index knows about a version: the vulnerabilities, or None where it does not say."""

    package: str
    version: str
    known: list[str] | None


def locked() -> dict[str, str]:
    """The versions that make and CI install."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {name.lower().replace("_", "-"): version for name, version in pairs}


def ask(index: str, package: str, version: str) -> Answer:
    """What the index says about this version."""
    for path in (f"{package}/{version}", package):
        found = _json(f"{index.rstrip('/')}/{path}/json")
        if found is not None and found["info"]["version"] == version:
            return Answer(package, version, list(_told(found["vulnerabilities"])))
    return Answer(package, version, None)


def lines(title: str, answers: list[Answer]) -> Iterator[str]:
    """Answers about the packages of one extra, in words."""
    clean = sum(answer.known == [] for answer in answers)
    yield f"{title}: no vulnerability is known of {clean} of {len(answers)} packages"
    for package, version, known in answers:
        yield from (f"  {package} {version}: {one}" for one in known or ())
    silent = [f"{answer.package} {answer.version}" for answer in answers if answer.known is None]
    if silent:
        yield f"  no answer about {', '.join(silent)}"


def grouped(versions: Mapping[str, str]) -> dict[str, list[str]]:
    """The locked packages by the extra that asks for them; the rest is for development."""
    found = {f"fedspd[{extra}]" if extra else "fedspd": [*rows] for extra, rows in packages().items()}
    named = {name for names in found.values() for name in names}
    return found | {"development": [name for name in versions if name not in named]}


def _json(address: str) -> Any:
    try:
        with urlopen(address, timeout=SECONDS) as answer:
            return json.load(answer)
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


def _told(vulnerabilities: list[dict[str, Any]]) -> Iterator[str]:
    for one in vulnerabilities:
        if not one.get("withdrawn"):
            yield f"{one['id']}, mended in {', '.join(one['fixed_in']) or 'no version'}"


def main() -> None:
    """Ask about each package once, and say what is known by extra."""
    if len(sys.argv) != 2:
        sys.exit("expected the address of a package index, got none or more than one; see the head of this file.")
    versions = locked()
    answers = {name: ask(sys.argv[1], name, version) for name, version in versions.items()}
    for title, names in grouped(versions).items():
        print("\n".join(lines(title, [answers[name] for name in names])))
    sys.exit(any(answer.known for answer in answers.values()))


if __name__ == "__main__":
    main()
