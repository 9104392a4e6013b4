"""What takes long to make is made once, however many processes of pytest there are."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def once(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Any]
) -> tuple[Path, Any]:
    """Return a directory that the first who asks for it makes, and what that returned.

    Nobody may change it. What `make` returns has to fit into JSON. The others wait; where it
    fails, the next one tries again.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # of all processes
    place, record = base / f"once-{name}", base / f"once-{name}.json"
    with (base / f"once-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not record.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            record.write_text(json.dumps(make(place)))
    return place, json.loads(record.read_text())
