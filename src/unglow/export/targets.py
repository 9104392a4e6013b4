"""Where an export goes: nothing is overwritten, and a directory appears only when it is whole."""

from __future__ import annotations

import secrets
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from unglow.core.errors import ConfigError, UnglowError
from unglow.core.files import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


EXPORT_BAND = 16_000_000
"""At most so much of an image is held while it is exported, bytes."""


def refuse_existing(target: Path) -> None:
    """Refuse to write where there is something.

    Raises
    ------
    ConfigError
        ``target`` exists.
    """
    if target.exists():
        raise ConfigError(f"{target} exists already; remove it or export to another path")


@contextmanager
def whole_directory(target: Path) -> Iterator[Path]:
    """Give the path of a hidden sibling to make; it becomes ``target`` when the block ends well.

    Raises
    ------
    UnglowError
        It could not be written.
    """
    partial = target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.rename(target)
    except OSError as error:
        raise UnglowError(
            f"{target} could not be written ({error.strerror or error}): "
            f"{remedy(error, target)}, then run again."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
