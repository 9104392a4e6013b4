"""Compiles the loops in C when unglow is built: with the machine's compiler, or with ziglang's."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TARGET = "UNGLOW_TARGET"
"""Variable that asks for wheels for another kind of machine: x86_64, aarch64 or arm64-macos."""


class CompiledLoops(BuildHookInterface[Any]):
    """Adds the libraries to a wheel, or puts them into the checkout of an editable installation."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Ask for a compiler where there is none, or where the wheel is to run elsewhere."""
        if self.target_name != "wheel":
            return []
        portable = os.environ.get(TARGET) or self._building().local_compiler() is None
        return ["ziglang>=0.13"] if portable else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, before files are collected."""
        if self.target_name != "wheel":
            return
        building = self._building()
        package = Path(self.root) / "src" / "unglow" / "core" / "kernels"
        if version == "editable":
            directory = package
        else:
            self._room = tempfile.TemporaryDirectory(prefix="unglow_")
            directory = Path(self._room.name)
        libraries, platforms = building.build(directory, os.environ.get(TARGET) or None)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platforms}"
        if version != "editable":
            for path in libraries:
                build_data["force_include"][str(path)] = f"unglow/core/kernels/{path.name}"

    def _building(self) -> Any:
        path = Path(self.root) / "src" / "unglow" / "core" / "kernels" / "building.py"
        spec = importlib.util.spec_from_file_location("building", path)
        if spec is None or spec.loader is None:
            raise ImportError(str(path))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
