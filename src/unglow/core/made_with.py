"""What a job was made with: settings, version and inputs, as its list of digests records them.

Inputs that jobs have published are named from the directory of the list, with their digests; all
others as the job was given them, with size, time of the last change, and a digest of pieces.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.digests import FOLDER, SUFFIX, Listed, directory_of_list, hash_pieces
from unglow.core.records import to_plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

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
    plain = to_plain({name: value for name, value in params.items() if name not in LEFT_OUT})
    found: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, dict):
            found |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            found[name] = value
    return {name: _shorten(value) for name, value in found.items()}


def _shorten(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = json.dumps(value, sort_keys=True)
    if len(text) > _LONGEST:
        return {"sha256": hashlib.sha256(text.encode()).hexdigest()}
    return json.loads(text)  # as it is read again: numbers that are keys are text then


class Lists:
    """Digests of what jobs have published, looked up by file; each list is read once.

    ``results`` is the directory of all of them.
    """

    def __init__(self, results: Path = Path()) -> None:
        self.results = results
        self._folders: dict[str, dict[str, Listed]] = {}
        self._digests: dict[str, str] = {}

    def find(self, path: str) -> Listed:
        """Return a list, which need not exist."""
        folder, _, name = path.rpartition("/")
        return self._read(folder).get(name) or Listed(Path(path), {}, whole=False)

    def digest_of(self, path: str) -> str | None:
        """Return the digest of a file; None if no list has it."""
        parts = path.split("/")
        # from above: folders there are those of many files
        for level in range(max(0, len(parts) - 1 - _LEVELS), len(parts)):
            if path in self._digests:
                break
            self._read("/".join((*parts[:level], FOLDER)))
        return self._digests.get(path)

    def _read(self, folder: str) -> dict[str, Listed]:
        """Return the lists in a directory by name, and keep the digests in them."""
        if folder not in self._folders:
            names: list[str] = []
            with suppress(OSError, ValueError):
                names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))  # noqa: PTH208
            lists = {name: Listed.read(Path(folder, name)) for name in names}
            above = folder.removesuffix(FOLDER)
            for one in lists.values():
                self._digests |= {above + name: digest for name, digest in one.names.items()}
            self._folders[folder] = lists
        return self._folders[folder]


def record(
    params: Mapping[str, Any], inputs: Mapping[str, Any], place: Path
) -> dict[str, dict[str, Any]]:
    """Return what a job was made with; its list is of ``place``."""
    lists, found = Lists(), dict[str, Any]()
    given = (([v] if isinstance(v, str) else v) for n, v in inputs.items() if n not in LEFT_OUT)
    for path in chain.from_iterable(given):
        if digest := lists.digest_of(path):
            found[os.path.relpath(path, place)] = digest
        elif os.path.isfile(path):
            status = Path(path).stat()
            pieces = hash_pieces(path, status.st_size)
            found[path] = [status.st_size, status.st_mtime_ns, pieces]
    return {"params": _flatten(params), "inputs": found}


def published_inputs(listed: Listed) -> Iterator[tuple[str, str]]:
    """Yield each input of a job that another has published, and the digest that it had then."""
    place = directory_of_list(listed.path)
    for name, digest in (listed.made or {"inputs": {}})["inputs"].items():
        if isinstance(digest, str):
            yield os.path.normpath(f"{place}/{name}"), digest


def find_changes(
    listed: Listed,
    rule: str,
    params: Mapping[str, Any],
    inputs: Collection[str],
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
    for path in map(Path, _other_inputs(listed, inputs, lists)):
        yield f"{rule}: another {path.parent.name if path.name == 'zarr.json' else path.name}"


def _other_inputs(listed: Listed, inputs: Collection[str], lists: Lists) -> Iterator[str]:
    """Yield the inputs that differ, are new, or are no longer given to a job."""
    recorded, place = (listed.made or {})["inputs"], str(directory_of_list(listed.path))
    yield from (path for path, known in published_inputs(listed) if lists.digest_of(path) != known)
    for name, known in recorded.items():
        # results without a digest have no say
        is_raw = not (isinstance(known, str) or Path(name).is_relative_to(lists.results))
        if is_raw and name not in inputs:
            yield name
    for path in inputs:
        known = recorded.get(path) or recorded.get(os.path.relpath(path, place))
        if known is None or (isinstance(known, list) and not _is_same(path, known)):
            yield path


def _describe(name: str, before: Any, now: Any) -> str:
    if isinstance(before, dict) or isinstance(now, dict):
        return f"{name} changed"
    texts = (v if isinstance(v, str) else json.dumps(v) for v in (before, now))
    return f"{name}: {' -> '.join(texts)}"


def _is_same(path: str, known: list[Any]) -> bool:
    """Whether a file that no job has published is as it was; its time alone proves nothing."""
    try:
        size, changed_ns, pieces = known
        status = Path(path).stat()
        if (status.st_size, status.st_mtime_ns) == (size, changed_ns):
            return True
        return status.st_size == size and bool(hash_pieces(path, status.st_size) == pieces)
    except (OSError, ValueError, TypeError):
        return False
