"""Compiles the loops; used when unglow is installed, and by tests for builds with checks.

Nothing but the standard library is imported here: ``src/hatch_build.py`` loads this file by its
path, before there is a package.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parent
FLAGS = (
    "-std=c99",
    "-O3",
    # the same bits on every processor: no product is fused with a sum
    "-ffp-contract=off",
    # nobody reads errno or exceptions of floating point; no value depends on these two
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-fvisibility=hidden",
)
GLIBC = "2.17"
"""The oldest C library that what ziglang builds works with."""
MACOS = "11.0"
"""The oldest macOS that libraries for it are built for; none of them has been run."""

_V3 = ("-mavx2", "-mbmi", "-mbmi2", "-mf16c", "-mfma", "-mlzcnt", "-mmovbe")
_PROBE = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\nint64_t f(double x);\n"


def levels(machine: str) -> dict[str, tuple[str, ...]]:
    """Return the builds for a kind of machine with the flags of each, the most general one first.

    Flags are those of gcc and clang; an older gcc does not know the level's own name.
    """
    if machine == "x86_64":
        general = "-march=x86-64"
        return {"x86-64": (general,), "x86-64-v3": (general, *_V3)}
    return {machine: ()}


def file_name(level: str) -> str:
    """Return what the library of a level is called."""
    return f"loops-{level}.so"


@cache
def digest() -> str:
    """Return the SHA-256 of all sources, which a library built from them also holds."""
    sums = hashlib.sha256()
    for path in sorted(p for p in SOURCES.iterdir() if p.suffix in {".c", ".h"}):
        content = path.read_bytes()
        sums.update(f"{path.name} {len(content)}\n".encode())
        sums.update(content)
    return sums.hexdigest()


def local_compiler() -> list[str] | None:
    """Return the command of this machine's C compiler (``CC``, or ``cc``) if it can compile."""
    command = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(command[0]) is None:
        return None
    flags = list(levels(platform.machine()).values())[-1]
    with tempfile.TemporaryDirectory(prefix="unglow_") as place:
        probe = Path(place) / "probe.c"
        probe.write_text(_PROBE, encoding="ascii")
        words = [*command, *FLAGS, *flags, "-shared", str(probe), "-o", f"{place}/probe.so", "-lm"]
        done = subprocess.run(words, capture_output=True, check=False)  # noqa: S603 (the user's)
    return command if done.returncode == 0 else None


def zig_compiler(machine: str, level: str, *, macos: bool = False) -> list[str]:
    """Return the command of the compiler that the package ziglang brings, for a level."""
    words = [sys.executable, "-m", "ziglang", "cc", f"-mcpu={level.replace('-', '_')}"]
    if machine in ("aarch64", "arm64"):
        words[-1] = "-mcpu=generic"
    if macos:
        processor = "aarch64" if machine == "arm64" else machine
        return [*words, "-target", f"{processor}-macos.{MACOS}", "-s"]
    if platform.libc_ver()[0] == "glibc" or machine != platform.machine():
        return [*words, "-target", f"{machine}-linux-gnu.{GLIBC}", "-s"]
    return [*words, "-target", f"{machine}-linux-musl", "-s"]


def compile_library(command: list[str], out: Path, *flags: str) -> Path:
    """Compile all sources into a library, which appears complete; returns its path.

    Parameters
    ----------
    command
        The compiler, with flags of its own.
    out
        Where the library goes; one that is there is replaced, and stays open in processes that use
        it.
    flags
        Added to `FLAGS`.

    Raises
    ------
    RuntimeError
        With what the compiler has said.
    """
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    with tempfile.TemporaryDirectory(prefix=".unglow_", dir=out.parent) as place:
        made = Path(place) / out.name
        defined = f'-DUNGLOW_SOURCES="{digest()}"'
        words = [*command, *FLAGS, *flags, defined, "-shared", *sources, "-o", str(made), "-lm"]
        # zig would keep what it compiles in the home directory, which may be full
        caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), place)
        done = subprocess.run(  # noqa: S603 (the compiler)
            words, capture_output=True, text=True, check=False, env={**os.environ, **caches}
        )
        if done.returncode:
            raise RuntimeError(f"{shlex.join(words)}:\n{done.stderr.strip()}")
        made.replace(out)
    return out


def build(directory: Path, target: str | None = None) -> tuple[list[Path], str]:
    """Compile the libraries of all levels into a directory.

    Parameters
    ----------
    directory
        Where they go.
    target
        Kind of machine to compile for with ziglang, such as ``aarch64`` (Linux) or ``arm64-macos``;
        None for this machine, with its own compiler if it has one that works.

    Returns
    -------
    The libraries, and the tag of platforms that they work on.
    """
    machine, _, system = (target or platform.machine()).partition("-")
    macos = system == "macos" or (not target and sys.platform == "darwin")
    local = None if target else local_compiler()
    oldest = (f"-mmacosx-version-min={MACOS}",) if macos else ()
    made = [
        compile_library(local, directory / file_name(level), *flags, *oldest)
        if local
        else compile_library(
            zig_compiler(machine, level, macos=macos), directory / file_name(level)
        )
        for level, flags in levels(machine).items()
    ]
    if macos:
        return made, f"macosx_{MACOS.replace('.', '_')}_{machine}"
    portable = local is None and (target is not None or platform.libc_ver()[0] == "glibc")
    kind = f"manylinux_{GLIBC.replace('.', '_')}" if portable else "linux"
    return made, f"{kind}_{machine}"
