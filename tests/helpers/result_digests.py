"""Digests of result files, for runs in several places that have to give equal results."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def digest_of(path: Path) -> str:
    """Return the digest of a file; of a list of digests, without what its job was given.

    That has the time of each raw image.
    """
    data = path.read_bytes()
    if path.suffix == ".sha256":
        lines = data.splitlines(keepends=True)
        data = b"".join(line for line in lines if not line.startswith(b"# made with"))
    return hashlib.sha256(data).hexdigest()
