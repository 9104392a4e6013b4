"""What a job was made with: settings, version and inputs, as its list of digests records them.

Inputs that jobs have published are named from the directory of the list, with their digests; all
others as the job was given them, with size, time of the last change, and a digest of pieces.
"""

from __future__ import annotations

import hashlib
import json
import os
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.digests import FOLDER, SUFFIX, Listed, hash_pieces
from unglow.core.records import to_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

UNKNOWN = "unknown"
"""Said of results whose list has no record."""
LEFT_OUT = ("memory", "at_a_time", "parts")
"""Params that change no result, and an input that is removed after its job."""
_SECTIONS = {"snr": "detect", "slide_register": "register", "slide_scale": "scale"}
"""Sections of the configuration that the settings of a rule of another name are of."""
_LONGEST = 80
"""Characters of a value that is kept as it is; of a longer one, a digest."""
_LEVELS = 5
"""Directories above a file that may hold the list it is in."""


def _flatten(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return params of a job, each key of a dictionary on its own: ``settings.fdr``."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        plain = None if name in LEFT_OUT else to_plain(value)
        if isinstance(plain, dict):
            found |= {f"{name}.{key}": _shorten(inner) for key, inner in plain.items()}
        elif name not in LEFT_OUT:
            found[name] = _shorten(plain)
    return found


def _shorten(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True)
    if len(text) > _LONGEST:
        return {"sha256": hashlib.sha256(text.encode()).hexdigest()}
    return json.loads(text)


class Lists:
    """Digests of what jobs have published, looked up by file; each list is read once.

    ``results`` is the directory of all of them.
    """

    def __init__(self, results: Path = Path()) -> None:
        self.results = results
        self._folders: dict[str, dict[str, Listed]] = {}

    def find(self, path: Path) -> Listed:
        """Return a list, which need not exist."""
        return self._in(str(path.parent)).get(str(path)) or Listed(path, {}, whole=False)

    def digest_of(self, path: Path) -> str | None:
        """Return the digest of a file; None if no list has it."""
        for place in path.parents[:_LEVELS]:
            for listed in self._in(f"{place}/{FOLDER}").values():
                if path in listed.digests:
                    return listed.digests[path]
        return None

    def _in(self, folder: str) -> dict[str, Listed]:
        if folder not in self._folders:
            try:
                paths = sorted(p for p in Path(folder).iterdir() if p.suffix == SUFFIX)
            except OSError:
                paths = []
            self._folders[folder] = {str(path): Listed.read(path) for path in paths}
        return self._folders[folder]


def record(
    params: Mapping[str, Any], inputs: Mapping[str, Any], place: Path
) -> dict[str, dict[str, Any]]:
    """Return what a job was made with; ``place`` is the directory of its list of digests."""
    lists, found = Lists(), dict[str, Any]()
    given = (([v] if isinstance(v, str) else v) for n, v in inputs.items() if n not in LEFT_OUT)
    for path in map(Path, chain.from_iterable(given)):
        if digest := lists.digest_of(path):
            found[os.path.relpath(path, place)] = digest
        elif path.is_file():
            status = path.stat()
            pieces = hash_pieces(path, status.st_size)
            found[str(path)] = [status.st_size, status.st_mtime_ns, pieces]
    return {"params": _flatten(params), "inputs": found}


def find_changes(
    listed: Listed,
    rule: str,
    params: Mapping[str, Any],
    inputs: Iterable[str],
    lists: Lists,
) -> Iterator[str]:
    """Yield in words how a job of now would differ from that which made a list.

    Parameters
    ----------
    listed
        The list of the job.
    rule, params
        Its rule, and its params of now.
    inputs
        The inputs of now that follow from the configuration or the sample sheet.
    lists
        Digests of now.
    """
    if listed.made is None:
        yield UNKNOWN
        return
    before, now = listed.made["params"], _flatten(params)
    for name in dict.fromkeys((*now, *before)):
        if name not in before or name not in now or before[name] != now[name]:
            key = name.removeprefix("settings.")
            section = rule if key == name else _SECTIONS.get(rule, rule)
            yield _describe(f"{section}.{key}", before.get(name), now.get(name))
    for path in _other_inputs(listed, [*map(Path, inputs)], lists):
        yield f"{rule}: another {path.parent.name if path.name == 'zarr.json' else path.name}"


def _other_inputs(listed: Listed, inputs: Iterable[Path], lists: Lists) -> Iterator[Path]:
    """Yield the inputs that differ, are new, or are no longer given to a job."""
    recorded, place = (listed.made or {})["inputs"], listed.path.parents[1]
    for name, known in recorded.items():
        path = Path(os.path.normpath(place / name)) if isinstance(known, str) else Path(name)
        if isinstance(known, str):
            is_same = lists.digest_of(path) == known
        else:  # results without a digest have no say
            is_same = path in inputs or path.is_relative_to(lists.results)
        if not is_same:
            yield path
    for path in inputs:
        known = recorded.get(str(path), recorded.get(os.path.relpath(path, place)))
        if known is None or (isinstance(known, list) and not _is_same(path, known)):
            yield path


def _describe(name: str, before: Any, now: Any) -> str:
    if isinstance(before, dict) or isinstance(now, dict):
        return f"{name} changed"
    texts = (v if isinstance(v, str) else json.dumps(v) for v in (before, now))
    return f"{name}: {' -> '.join(texts)}"


def _is_same(path: Path, known: list[Any]) -> bool:
    """Whether a file that no job has published is as it was; its time alone proves nothing."""
    try:
        size, changed_ns, pieces = known
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) == (size, changed_ns):
            return True
        return status.st_size == size and hash_pieces(path, status.st_size) == pieces
    except (OSError, ValueError, TypeError):
        return False
