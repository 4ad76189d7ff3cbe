"""Search for bytes that end in anything but an answer or a sentence, guided by coverage, with atheris.

Needs `pip install atheris` on Linux. What is found is written to the current folder; what covers more code goes to
tests/fuzz/corpus/TARGET, from where `make test` replays it.

Examples:
    python scripts/fuzz.py schema -max_total_time=600
    python scripts/fuzz.py ledger crash-0123
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

atheris: Any = import_module("atheris")
sys.path.insert(0, str(Path(__file__).parent.parent))
with atheris.instrument_imports(include=["fedspd"]):
    from tests.fuzz.targets import CORPUS, TARGETS, refused


def main() -> None:
    """Fuzz one target."""
    name, *options = sys.argv[1:] or [""]
    if name not in TARGETS:
        sys.exit(f"expected one of {', '.join(TARGETS)}, got {name!r}")
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    given = any(not option.startswith("-") for option in options)
    atheris.Setup([sys.argv[0], *options, *([] if given else [str(folder)])], lambda content: refused(name, content))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
