"""Compile the kernels beside their text, where there is a C compiler. Knows nothing but the standard library."""

import os
import shutil
import sys
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parent
TEXTS = ("kernels.c", "classes.h", "lanes.h", "newton.h", "steps.h")
# no fast-math: what is proved of rounding holds for sums in any order, and for nothing else
OPTIONS = ("-O3", "-std=gnu11", "-fopenmp-simd", "-fno-math-errno", "-fPIC", "-shared")


def library_file(folder: Path = FOLDER) -> Path:
    """Where the library of the present text is, if it was compiled: another text has another name."""
    text = b"\0".join((folder / name).read_bytes() for name in TEXTS)
    return folder / f"kernels-{sha256(text).hexdigest()[:16]}.so"


def compile_kernels(folder: Path = FOLDER) -> Path | None:
    """The library, compiled unless it is there; None where no compiler makes it."""
    library = library_file(folder)
    if library.exists():
        return library
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None
    import subprocess  # of those that import this, few compile

    made = folder / f".{library.name}.{os.getpid()}"
    command = [compiler, *OPTIONS, str(folder / TEXTS[0]), "-o", str(made), "-lm"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        for old in folder.glob("kernels-*.so"):
            old.unlink(missing_ok=True)
        made.replace(library)
    except (OSError, subprocess.SubprocessError):
        made.unlink(missing_ok=True)
        return None
    return library


if __name__ == "__main__":
    sys.exit(0 if compile_kernels() else "no C compiler has made the kernels: fedspd runs without them, slower.")
