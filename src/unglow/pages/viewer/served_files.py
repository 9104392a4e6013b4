"""Files that the viewer sends as they are on disk, stores that it keeps open, and errors.

A reader of Zarr takes a file that is not found for a chunk of fill values. So a missing file that
has to be there is reported as an error, never as "not found".
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING

from unglow.core.errors import StoreError, UnglowError
from unglow.images.zarr import open_store
from unglow.images.zarr.layout import DOCUMENT, check_level, describe_broken, shard_key
from unglow.pages.report.live_answers import ASK_AGAIN, BYTES, HTML, JSON, Answer, FileBody
from unglow.pages.report.report import SHARED, asset, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from unglow.images.zarr import Store, StoreLayout


class NoAddressError(Exception):
    """There is no such address: nothing that has to be there is missing."""


UNREADABLE = (UnglowError, OSError, MemoryError)
"""Errors of a file that cannot be read, or holds what no stage writes; others are our own."""


def sentence_of(error: BaseException) -> str:
    """Return the sentence that describes an error."""
    if isinstance(error, UnglowError):
        return str(error)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename} cannot be read ({error.strerror})."
    return f"The results cannot be read ({type(error).__name__}: {error})."


INDEX = "index.html"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; "
    "form-action 'none'"
)
"""Of the page; the style of an element that is drawn is set by scripts."""
_DECODER = "decoder.js"
# Scripts that a page does not import, or not at first.
_NO_MODULES = ("main.js", _DECODER, "vendor/blosc.min.js", "vendor/openseadragon.min.js")
_DECODER_POLICY = "default-src 'none'; script-src 'self' 'unsafe-eval'; base-uri 'none'"
"""Of the worker that decompresses chunks, and of nothing else: Blosc's WebAssembly makes functions
from text as it starts."""
_KINDS = {"html": HTML, "js": "text/javascript", "css": "text/css"}
_PLAIN = "text/plain"


def answer_page(parts: Sequence[str], name: str, package: str = "unglow.pages.viewer") -> Answer:
    """Return the page of a part of the site, or a file of it; NoAddressError if it has none.

    ``name`` is that of the part in addresses.
    """
    if not parts:  # without a slash at its end, all that the page asks for is elsewhere
        return Answer("text/plain", status=HTTPStatus.FOUND, headers={"Location": f"{name}/"})
    first, *rest = parts
    file = "/".join(rest) if first == "assets" else "" if first or rest else INDEX
    if file not in page_files(package):
        raise NoAddressError("/".join(parts))
    return page_files(package)[file]


def answer_problem(sentence: str, status: HTTPStatus) -> Answer:
    """Return an error as ``{"error": "one sentence"}``."""
    return Answer.text(to_json({"error": sentence}), JSON, status)


@cache
def page_files(package: str = "unglow.pages.viewer") -> dict[str, Answer]:
    """Return all files of a package's page by their path below its ``assets``, with slashes.

    The page asks for its modules at once: each way to a server far away takes time.
    """
    shared = [(name, _answer(name, asset(name).encode())) for name in SHARED]
    place = resources.files(package).joinpath("assets")
    files = dict([*_files(place, ""), *shared])
    modules = sorted(name for name in files if name.endswith(".js") and name not in _NO_MODULES)
    links = "\n".join(f'<link rel="modulepreload" href="assets/{name}">' for name in modules)
    page = place.joinpath(INDEX).read_text(encoding="utf-8").replace("</head>", f"{links}\n</head>")
    return files | {INDEX: _answer(INDEX, page.encode())}


def _files(place: Traversable, before: str) -> list[tuple[str, Answer]]:
    found: list[tuple[str, Answer]] = []
    for entry in place.iterdir():
        name = before + entry.name
        if entry.is_dir():
            found += _files(entry, name + "/")
        elif not entry.name.startswith("."):
            found.append((name, _answer(entry.name, entry.read_bytes())))
    return found


def _answer(name: str, content: bytes) -> Answer:
    kind = f"{_KINDS.get(name.rpartition('.')[2], _PLAIN)}; charset=utf-8"
    policy = _DECODER_POLICY if name == _DECODER else POLICY
    headers = {
        "Cache-Control": ASK_AGAIN,
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
    }
    return Answer(kind, content, tag=hashlib.sha256(content).hexdigest()[:32], headers=headers)


_HEADERS = {"Cache-Control": ASK_AGAIN}


def file_of(store: Store, parts: Sequence[str]) -> Answer:
    """Return a file of a store.

    Parameters
    ----------
    store
        An opened store.
    parts
        Of the key: ``zarr.json``, or level and ``zarr.json``, or level, ``c``, row and column.

    Raises
    ------
    NoAddressError
        The store has no such key.
    StoreError
        A file that has to be there is missing, empty or cannot be read, or the document of a level
        does not fit the store.
    """
    level = level_of(parts, store.levels)
    if level is None:
        return _sent(store, DOCUMENT, "file", JSON)
    if parts[1:] == (DOCUMENT,):
        check_level(store.path, store.layout, level)
        return _sent(store, f"{level}/{DOCUMENT}", "file", JSON)
    row, col = place_of(parts, store.layout, level, store.layout.level_shards(level))
    if store.empty is not None:
        raise StoreError(f"{store.path} holds no pixels: {store.empty}")
    return _sent(store, shard_key(level, row, col), "shard", BYTES)


def level_of(parts: Sequence[str], levels: int) -> int | None:
    """Return the level of a key, None for the root's document; NoAddressError if none."""
    if tuple(parts) == (DOCUMENT,):
        return None
    level = _number(parts[0]) if len(parts) > 1 else levels
    if level >= levels:
        raise NoAddressError("/".join(parts))
    return level


def place_of(
    parts: Sequence[str], layout: StoreLayout, level: int, files: tuple[int, int]
) -> tuple[int, int]:
    """Return (row, column) of a file of ``files`` px of a level; NoAddressError if none."""
    if len(parts) != 4 or parts[1] != "c":
        raise NoAddressError("/".join(parts))
    place = _number(parts[2]), _number(parts[3])
    sides = zip(place, files, layout.level_shape(level), strict=True)
    if any(n * side >= size for n, side, size in sides):
        raise NoAddressError("/".join(parts))
    return place


def _number(text: str) -> int:
    """Return a number as Zarr writes them; NoAddressError for anything else."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and str(int(text)) == text):
        raise NoAddressError(text)
    return int(text)


def _sent(store: Store, key: str, word: str, kind: str) -> Answer:
    try:
        body = FileBody(store.path / key)
    except FileNotFoundError as error:
        raise StoreError(describe_broken(store.path, key, "is missing", word)) from error
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise StoreError(describe_broken(store.path, key, reason, word)) from error
    if not body.size:
        body.file.close()
        raise StoreError(describe_broken(store.path, key, "is empty", word))
    return Answer(kind, body, tag=body.tag, headers=_HEADERS)


_MOST_OPEN = 64
# unglow writes chunks of 512 px and shards of 2048; what has far larger ones needs memory for them.
_LARGEST_CHUNK, _LARGEST_SHARD = 2048, 1 << 16


class OpenedStores:
    """Stores by path, opened again when their root document has changed; thread-safe."""

    def __init__(self) -> None:
        self._opened: OrderedDict[Path, tuple[tuple[int, ...], Store]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: Path) -> Store:
        """Return an opened store; errors are those of `open_store`, or it has huge chunks."""
        state = _state(path / DOCUMENT)
        with self._lock:
            found = self._opened.get(path)
            if found is not None and found[0] == state:
                self._opened.move_to_end(path)
                return found[1]
        store = open_store(path)
        chunks, shards = store.layout.chunks, store.layout.shards
        if max(chunks) > _LARGEST_CHUNK or max(shards) > _LARGEST_SHARD:
            raise StoreError(
                f"{path} has chunks of {chunks} px and shards of {shards} px, larger than any "
                "that unglow writes; run the workflow to make the store again"
            )
        with self._lock:
            self._opened[path] = state, store
            self._opened.move_to_end(path)
            while len(self._opened) > _MOST_OPEN:
                self._opened.popitem(last=False)
        return store


def _state(document: Path) -> tuple[int, ...]:
    try:
        found = document.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
