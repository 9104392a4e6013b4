"""Digests of what jobs have published: one small file for each job, in the format of ``sha256sum``.

It is the last output of its job, so it exists only where all others do, and Snakemake removes it
with them before the job is done again. Of a store, its root ``zarr.json`` is listed, which holds a
digest of all pixels. A comment says what the job was made with: see `unglow.core.made_with`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from unglow.core.files import open_file, read_file, write_changed_text
from unglow.core.levels import DETAILS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

FOLDER = f"{DETAILS}/digests"
"""Directory of these files, below that of what they list."""
SUFFIX = ".sha256"
OF_RUN = ("summary", "verdict", "report")
"""Names of the lists of the run itself: its tables, its verdict, its report."""
_HEAD = "# SHA-256 of {} files"
_MADE = "# made with "
_PIECE, _PIECES = 1 << 16, 64


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal; it is read a piece at a time."""
    with open_file(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hash_pieces(path: Path | str, size: int) -> str:
    """Return a digest of the size of a file, bytes, and of pieces spread evenly over it.

    It is quick for any size, and of all bytes of a file of up to 4 MB.
    """
    digest = hashlib.sha256(str(size).encode())
    with open_file(path) as stream:
        for piece in range(_PIECES):
            stream.seek(piece * max(0, size - _PIECE) // (_PIECES - 1))
            digest.update(stream.read(_PIECE))
    return digest.hexdigest()


def files_in(outputs: Iterable[Path]) -> Iterator[Path]:
    """Yield what jobs publish: files, and of directories those that are in them.

    Not a file without a byte, which represents what a job could not make.
    """
    for path in outputs:
        if path.is_dir():
            yield from (file for file in path.iterdir() if not file.name.startswith("."))
        elif path.stat().st_size:
            yield path


def list_of(directory: Path, job: str) -> Path:
    """Return the path of the list of what a job publishes in a directory, or below it."""
    return directory / FOLDER / f"{job}{SUFFIX}"


def directory_of_list(path: Path) -> Path:
    """Return the directory whose files a list has: that which `list_of` was given."""
    return path.parents[2]


def write(target: Path, published: Iterable[Path], made: Mapping[str, Any] | None = None) -> None:
    """List files with their digests, by name; a list that would not change keeps its time.

    The list is that of `list_of`, the files are in that directory or below it. ``made`` is what
    they were made with.
    """
    directory = directory_of_list(target)
    paths = {path.relative_to(directory).as_posix(): path for path in published}
    rows = [f"{hash_file(paths[name])}  {name}" for name in sorted(paths)]
    comments = [] if made is None else [_MADE + json.dumps(made)]
    text = "\n".join([_HEAD.format(len(rows)), *comments, *rows]) + "\n"
    write_changed_text(target, text)


@dataclass(frozen=True, slots=True)
class Listed:
    """What one job has published.

    Attributes
    ----------
    path
        The list.
    names
        SHA-256 by name, from the directory of what it lists.
    whole
        Whether all of the list is there.
    made
        What the job was made with; None if the list does not say.
    """

    path: Path
    names: dict[str, str]
    whole: bool = True
    made: dict[str, Any] | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a list; of a damaged one, what can be read."""
        try:
            lines = read_file(path).decode("utf-8", "replace").split("\n")
        except OSError:
            return cls(path, {}, whole=False)
        rows = [line.partition("  ") for line in lines if line and not line.startswith("#")]
        names = {name: digest for digest, _, name in rows if _is_inside(name)}
        whole = lines[0] == _HEAD.format(len(names)) and lines[-1] == ""
        return cls(path, names, whole, _read_made(lines))

    @property
    def digests(self) -> dict[Path, str]:
        """SHA-256 by path."""
        directory = directory_of_list(self.path)
        return {directory / name: digest for name, digest in self.names.items()}

    @property
    def files(self) -> tuple[Path, ...]:
        """The files, and the list itself."""
        return (*self.digests, self.path)


@dataclass(frozen=True, slots=True)
class Published:
    """What all jobs of a pair have published: by its list, and SHA-256 of all by path."""

    jobs: dict[Path, Listed] = field(default_factory=dict)
    digests: dict[Path, str] = field(default_factory=dict)

    @classmethod
    def from_files(cls, files: Iterable[Path]) -> Self:
        """Read those of the files of a pair that are lists."""
        lists = (p for p in files if p.suffix == SUFFIX and p.match(f"{FOLDER}/*"))
        jobs = {path: Listed.read(path) for path in lists}
        return cls(jobs, {path: d for job in jobs.values() for path, d in job.digests.items()})

    def list_job_outputs(self, path: Path) -> tuple[Path, ...]:
        """Return a file and all others that its job makes: Snakemake makes them together."""
        jobs = (job for job in self.jobs.values() if path in job.digests or path == job.path)
        return tuple({path: None, **{other: None for job in jobs for other in job.files}})


def _read_made(lines: Iterable[str]) -> dict[str, Any] | None:
    texts = (line.removeprefix(_MADE) for line in lines if line.startswith(_MADE))
    try:
        made = json.loads(next(texts, "null"))
        return {"params": {**made["params"]}, "inputs": {**made["inputs"]}}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _is_inside(name: str) -> bool:
    """Whether a name of a list leads to a file below it; whatever else is not a name of ours."""
    is_path = bool(name) and not name.startswith("/") and "\0" not in name
    return is_path and ".." not in name.split("/")
