"""Compiles the kernels into the wheel where there is a C compiler; without one the wheel is pure Python."""

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "src/fedspd/problem/fast"


class KernelsHook(BuildHookInterface):
    """Called by hatchling before it packs a wheel, or links an editable one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and mark the wheel as one for this platform if that worked."""
        library = runpy.run_path(str(Path(self.root) / FOLDER / "compiling.py"))["compile_kernels"]()
        if library is not None:
            build_data["artifacts"].append(f"{FOLDER}/{library.name}")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
