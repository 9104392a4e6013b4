"""Compiles the loops to object code; run as ``python -m unglow.kernels.build DIRECTORY NAME=FILE``.

This is a process of its own so that numba and the optimiser are gone when the job's own memory
grows. What it writes needs nothing of numba's: llvmlite alone loads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numba
from numba import types

from unglow.kernels import ABSENT, KERNELS, loops
from unglow.pages import give_back

_TYPES = {
    "i": types.int64,
    "u1": types.uint8,
    "u2": types.uint16,
    "i2": types.int16,
    "i4": types.int32,
    "i8": types.int64,
    "f4": types.float32,
    "f8": types.float64,
    "c8": types.complex64,
}
# What numba's wrappers call when a function raises or owns memory; ours do neither.
_RUNTIME = re.compile(r"@(?=(numba_|NRT_|Py|_Py))")


def compiled(name: str) -> bytes:
    """Return a kernel as a file that `unglow.kernels` loads: a line of JSON, then object code."""
    pointer: Any = types.CPointer
    arguments = [
        pointer(_TYPES[code[:-1]]) if code.endswith("*") else _TYPES[code]
        for code in KERNELS[name].split()
    ]
    function = getattr(loops, name.partition("-")[0])
    compiler: Any = numba.cfunc
    made = compiler(types.void(*arguments), error_model="numpy", boundscheck=False)(function)
    module = llvm.parse_assembly(_RUNTIME.sub(f"@{ABSENT}", made.inspect_llvm()))
    absent = [v.name for v in module.functions if v.name.startswith(ABSENT) and v.is_declaration]
    absent += [v.name for v in module.global_variables if v.name.startswith(ABSENT)]
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="small",
    )
    code: bytes = machine.emit_object(module)
    head = {
        "symbol": made.native_name,
        "absent": sorted(absent),
        "sha256": hashlib.sha256(code).hexdigest(),
    }
    return json.dumps(head).encode() + b"\n" + code


def write(directory: Path, wanted: dict[str, str]) -> None:
    """Compile kernels (name to file name) into a directory; each file appears whole."""
    for name, file in wanted.items():
        partial = directory / f".{file}.{os.getpid()}"
        try:
            partial.write_bytes(compiled(name))
            partial.replace(directory / file)
        finally:
            partial.unlink(missing_ok=True)


if __name__ == "__main__":
    give_back()  # importing touches much that compiling does not
    write(Path(sys.argv[1]), dict(item.split("=", 1) for item in sys.argv[2:]))
