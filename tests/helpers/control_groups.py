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
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, Self

ROOT = Path("/sys/fs/cgroup")
HOOK = Path(__file__).resolve().parent / "job_groups"
_UNLIMITED = 1 << 60


class _Files(NamedTuple):
    """Files of a group: limits with what is written (None: the limit, bytes), and what is read."""

    limits: tuple[tuple[str, str | None], ...]
    peak: str
    kills: str


_V1 = _Files(
    (("memory.limit_in_bytes", None), ("memory.memsw.limit_in_bytes", None)),
    "memory.max_usage_in_bytes",
    "memory.oom_control",
)
_V2 = _Files((("memory.max", None), ("memory.swap.max", "0")), "memory.peak", "memory.events")


class NoGroupsError(Exception):
    """Control groups cannot be made here; the message is the reason."""


class ControlGroups:
    """A place for groups, with all of them removed at the end of the ``with`` statement.

    It lies as high as a limit that binds this process allows, so that it keeps binding the groups.
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
            (group / file).write_text(str(int(limit_mb * 1e6)) if value is None else value)
        return group

    @staticmethod
    def inside(group: Path, *words: object) -> list[str]:
        """Return the words of a command that runs inside a group."""
        enter = 'echo $$ > "$0" && exec "$@"'
        return ["sh", "-c", enter, str(group / "cgroup.procs"), *(str(word) for word in words)]

    def environment(self, factor: float) -> dict[str, str]:
        """Return variables with which each job of a snakemake command goes into its own group."""
        settings = {
            "parent": str(self.directory),
            "records": str(self._records),
            "factor": factor,
            "limits": [one for one in self._files.limits if (self.directory / one[0]).exists()],
        }
        path = os.pathsep.join(filter(None, (str(HOOK), os.environ.get("PYTHONPATH"))))
        return {"UNGLOW_JOB_GROUPS": json.dumps(settings), "PYTHONPATH": path}

    def collect(self) -> dict[str, dict]:
        """Return what the jobs since the last call did, by rule and wildcards; remove their groups.

        Each has ``limit_mb``, the largest use ``group_mb``, cached files included, and ``kills``,
        processes that were killed because giving back cached files was not enough.
        """
        found = {}
        for path in sorted(self._records.glob("*.json")):
            entry = json.loads(path.read_text())
            group = Path(entry["group"])
            found[str((entry["rule"], sorted(entry["wildcards"].items())))] = {
                "limit_mb": entry["limit_mb"],
                "group_mb": (_number(group / self._files.peak) or 0) / 1e6,
                "kills": _number(group / self._files.kills, "oom_kill") or 0,
            }
            path.unlink()
            _remove(group)
        return found

    def _make(self, place: Path, name: str) -> Path:
        """Make a directory for groups and prove that a process can be limited in it."""
        directory = place / name
        directory.mkdir()
        probe = directory / "probe"
        try:
            if self._files is _V2:
                (directory / "cgroup.subtree_control").write_text("+memory")
            probe.mkdir()
            (probe / self._files.limits[0][0]).write_text(str(1 << 28))
            words = self.inside(probe, "true")
            if subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode:
                raise PermissionError(1, "processes cannot be moved there")
            _remove(probe)
        except OSError:
            for one in (probe, directory):
                _remove(one)
            raise
        return directory


def joined(records: list[dict], uses: dict[str, dict]) -> list[dict]:
    """Give each record of a job what `collect` says; a `KeyError` is a job that ran outside."""
    return [r | uses[str((r["rule"], sorted(r["wildcards"].items())))] for r in records]


def _places() -> tuple[_Files, list[Path]]:
    """Return the version and directories in which groups may be made, the best first."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
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
        if directory.is_dir():  # not seen from inside a container, where the root is the own group
            found.append(directory)
            if (_number(directory / limit) or _UNLIMITED) < _UNLIMITED:
                break
    return found[::-1]


def _number(path: Path, key: str | None = None) -> int | None:
    """Return the number in a file, or that behind a key; None if there is none."""
    with contextlib.suppress(OSError):
        for row in path.read_text().splitlines():
            words = row.split()
            if (key is None or words[0] == key) and words[-1].isdigit():
                return int(words[-1])
    return None


def _remove(group: Path, patience_s: float = 5.0) -> None:
    """Remove a group; the kernel refuses while a process in it is still ending."""
    end = time.monotonic() + patience_s
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > end:
                return
            time.sleep(0.05)
