"""The files of the page itself: those that lie in ``assets``, and no others."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from unglow.reporting.html.live_answers import ASK_AGAIN, HTML, Answer

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

INDEX = "index.html"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; "
    "form-action 'none'"
)
"""Of the page; the style of an element that is drawn is set by scripts."""
_DECODER = "decoder.js"
_DECODER_POLICY = "default-src 'none'; script-src 'self' 'unsafe-eval'; base-uri 'none'"
"""Of the worker that decompresses chunks, and of nothing else: Blosc's WebAssembly makes functions
from text as it starts."""
_KINDS = {
    "html": HTML,
    "js": "text/javascript",
    "mjs": "text/javascript",
    "css": "text/css",
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "wasm": "application/wasm",
    "txt": "text/plain",
}
_TEXTS = ("text/", "application/json", "image/svg")
_PLAIN = "text/plain"


@cache
def page_files() -> dict[str, Answer]:
    """Return all files by their path below ``assets``, with slashes."""
    return dict(_files(resources.files("unglow.viewer").joinpath("assets"), ""))


def _files(place: Traversable, before: str) -> list[tuple[str, Answer]]:
    found: list[tuple[str, Answer]] = []
    if not place.is_dir():
        return found
    for entry in place.iterdir():
        name = before + entry.name
        if entry.is_dir():
            found += _files(entry, name + "/")
        elif not entry.name.startswith("."):
            found.append((name, _answer(entry)))
    return found


def _answer(entry: Traversable) -> Answer:
    content = entry.read_bytes()
    kind = _KINDS.get(entry.name.rpartition(".")[2], _PLAIN)
    if kind.startswith(_TEXTS):
        kind += "; charset=utf-8"
    policy = _DECODER_POLICY if entry.name == _DECODER else POLICY
    headers = {
        "Cache-Control": ASK_AGAIN,
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
    }
    return Answer(kind, content, tag=hashlib.sha256(content).hexdigest()[:32], headers=headers)
