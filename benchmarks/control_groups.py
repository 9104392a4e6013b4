"""Memory control groups (cgroups, version 2 or 1): what the kernel itself thinks of a job's memory.

Every job of a run can be put into a group of its own, whose limit is a factor times what was
declared for the job. Whatever the model forgets, the kernel counts: the pages of files that a job
reads and writes as well (it gives those back when they are in the way), and no swap.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

ROOT = Path("/sys/fs/cgroup")
HOOK = Path(__file__).resolve().parent / "job_groups"
MB = 1e6
_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class _Files:
    """What the files of a group are called.

    Attributes
    ----------
    limits
        Written in this order; None stands for the limit in bytes.
    peak, kills
        The file of the largest use, and file and key of processes that the kernel killed.
    """

    limits: tuple[tuple[str, str | None], ...]
    peak: str
    kills: tuple[str, str]


_V1 = _Files(
    (("memory.limit_in_bytes", None), ("memory.memsw.limit_in_bytes", None)),
    "memory.max_usage_in_bytes",
    ("memory.oom_control", "oom_kill"),
)
_V2 = _Files(
    (("memory.max", None), ("memory.swap.max", "0")),
    "memory.peak",
    ("memory.events", "oom_kill"),
)


@dataclass(frozen=True, slots=True)
class Use:
    """What one job did in its group.

    Attributes
    ----------
    rule, wildcards, attempt
        The job.
    limit_mb, peak_mb
        The limit and the largest use, cached files included, MB.
    kills
        Processes that were killed because giving back cached files was not enough.
    """

    rule: str
    wildcards: dict[str, str]
    attempt: int
    limit_mb: float
    peak_mb: float
    kills: int


class NoGroupsError(Exception):
    """Control groups cannot be made here; the message is the reason."""


class ControlGroups:
    """A place for groups, with all of them removed at the end of the ``with`` statement.

    It lies as high as a limit that binds this process allows, so that it keeps binding the groups.

    Raises
    ------
    NoGroupsError
        If groups cannot be made here, with the reason.
    """

    def __init__(self) -> None:
        self._files, places = _places()
        reasons = []
        for place in places:
            try:
                self.directory = self._make(place, f"unglow-{os.getpid()}-{time.time_ns() % 10**9}")
            except OSError as error:
                reasons.append(f"{place}: {error.strerror}")
            else:
                break
        else:
            raise NoGroupsError(f"no control group can be made ({'; '.join(reasons)})")
        self._records = Path(tempfile.mkdtemp(prefix="unglow-groups-"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._records, ignore_errors=True)
        for group in [*self.directory.iterdir(), self.directory]:
            if group.is_dir():
                _remove(group)

    def group(self, name: str, limit_mb: float) -> Path:
        """Make a group with a limit."""
        group = self.directory / name
        group.mkdir()
        for file, value in self._files.limits:
            _write(group / file, str(int(limit_mb * MB)) if value is None else value)
        return group

    @staticmethod
    def inside(group: Path, *words: object) -> list[str]:
        """Return the words of a command that runs inside a group."""
        enter = 'echo $$ > "$0" && exec "$@"'
        return ["sh", "-c", enter, str(group / "cgroup.procs"), *(str(word) for word in words)]

    def environment(self, factor: float) -> dict[str, str]:
        """Return variables with which each job of a snakemake command goes into its own group."""
        limits = [item for item in self._files.limits if (self.directory / item[0]).exists()]
        settings = {
            "parent": str(self.directory),
            "records": str(self._records),
            "factor": factor,
            "limits": limits,
        }
        path = os.pathsep.join(filter(None, (str(HOOK), os.environ.get("PYTHONPATH"))))
        return {"UNGLOW_JOB_GROUPS": json.dumps(settings), "PYTHONPATH": path}

    def collect(self) -> list[Use]:
        """Return what the jobs since the last call did, and remove their groups."""
        found = []
        for path in sorted(self._records.glob("*.json")):
            entry = json.loads(path.read_text())
            group = Path(entry.pop("group"))
            found.append(
                Use(
                    **entry,
                    peak_mb=(_number(group / self._files.peak) or 0) / MB,
                    kills=_number(group / self._files.kills[0], self._files.kills[1]) or 0,
                )
            )
            path.unlink()
            _remove(group)
        return found

    def _make(self, place: Path, name: str) -> Path:
        """Make a directory for groups and prove that a process can be limited in it."""
        directory = place / name
        directory.mkdir()
        try:
            if self._files is _V2:
                _write(directory / "cgroup.subtree_control", "+memory")
            probe = directory / "probe"
            probe.mkdir()
            try:
                _write(probe / self._files.limits[0][0], str(1 << 28))
                words = self.inside(probe, "true")
                done = subprocess.run(words, stderr=subprocess.DEVNULL, check=False)
                if done.returncode != 0:
                    raise PermissionError(1, "processes cannot be moved there")
            finally:
                _remove(probe)
        except OSError:
            _remove(directory)
            raise
        return directory


def joined(records: list[dict[str, Any]], uses: list[Use]) -> list[dict[str, Any]]:
    """Give each record of a job that ran in a group its ``limit_mb``, ``group_mb``, ... .

    Raises
    ------
    RuntimeError
        If a job ran outside.
    """
    known = {(u.rule, tuple(sorted(u.wildcards.items())), u.attempt): u for u in uses}
    found = []
    for record in records:
        key = record["rule"], tuple(sorted(record["wildcards"].items())), record["attempt"]
        if key not in known:
            raise RuntimeError(f"{record['rule']} {record['wildcards']} ran outside its group")
        use = known[key]
        group = {"limit_mb": use.limit_mb, "group_mb": use.peak_mb, "kills": use.kills}
        found.append({**record, **group})
    return found


def _places() -> tuple[_Files, list[Path]]:
    """Return the version and directories in which groups may be made, the best first."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        raise NoGroupsError("this system has no control groups") from None
    own = {key: path for _, key, path in (line.split(":", 2) for line in lines)}
    v1 = next((path for key, path in own.items() if "memory" in key.split(",")), None)
    if v1 is not None:
        return _V1, _upwards(ROOT / "memory", v1, "memory.limit_in_bytes")
    if "" not in own:
        raise NoGroupsError("this system has no control groups for memory")
    return _V2, _upwards(ROOT, own[""], "memory.max")


def _upwards(root: Path, path: str, limit: str) -> list[Path]:
    """Return the own group and those above it, the topmost first, none above one with a limit."""
    relative = Path(path.lstrip("/"))
    found: list[Path] = []
    for directory in (root / relative, *(root / above for above in relative.parents)):
        if not directory.is_dir():  # seen from inside a container, where the root is the own group
            continue
        most = _number(directory / limit)
        found.append(directory)
        if most is not None and most < _UNLIMITED:
            break
    return found[::-1]


def _number(path: Path, key: str | None = None) -> int | None:
    """Return the number in a file, or that behind a key; None if there is none."""
    with contextlib.suppress(OSError):
        for row in path.read_text(encoding="utf-8").splitlines():
            words = row.split()
            if (key is None or words[0] == key) and words[-1].isdigit():
                return int(words[-1])
    return None


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _remove(group: Path, patience_s: float = 5.0) -> None:
    """Remove a group; the kernel refuses while a process in it is still ending."""
    end = time.monotonic() + patience_s
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > end:
                print(f"{group} could not be removed", file=sys.stderr)
                return
            time.sleep(0.05)
        else:
            return
