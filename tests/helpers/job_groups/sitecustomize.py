"""Puts each job of a benchmark into a memory control group of its own, before it imports anything.

Python imports this by itself where the directory is on PYTHONPATH; `control_groups.py` next to it
sets that and UNGLOW_JOB_GROUPS for the commands of a benchmark or test. Other processes than
scripts of Snakemake are left alone.
"""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import sys
from pathlib import Path
from typing import Any

_SETTINGS = "UNGLOW_JOB_GROUPS"
_SCRIPT = re.compile(r"\.snakemake/scripts/tmp[^/]*\.py$")


def _enter(script: Path) -> None:
    """Make a group, move this process into it, then limit it by what the job was declared with."""
    settings = json.loads(os.environ[_SETTINGS])
    name = f"{script.suffixes[-2].lstrip('.')}-{os.getpid()}"
    group = Path(settings["parent"], name)
    group.mkdir()
    (group / "cgroup.procs").write_text(str(os.getpid()))
    job = _declared(script)
    limit = int(settings["factor"] * float(job.resources["mem_mb"]) * 1e6)
    for file, value in settings["limits"]:
        (group / file).write_text(str(limit) if value is None else value)
    entry = {
        "group": str(group),
        "rule": job.rule,
        "wildcards": dict(job.wildcards.items()),
        "attempt": int(getattr(job.resources, "attempt", 1)),
        "limit_mb": limit / 1e6,
    }
    Path(settings["records"], f"{name}.json").write_text(json.dumps(entry))


def _declared(script: Path) -> Any:
    """Return the object that Snakemake has put at the head of the script, as the script will."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "loads":
            return pickle.loads(ast.literal_eval(node.args[0]))
    raise ValueError(f"{script} does not begin as Snakemake's scripts do")


if _SETTINGS in os.environ and _SCRIPT.search(sys.orig_argv[-1]):
    _enter(Path(sys.orig_argv[-1]))
