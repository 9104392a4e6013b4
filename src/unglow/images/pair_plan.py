"""``plan.json``: what was decided on a pair from its images, written and read again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from unglow.core.errors import StoreError
from unglow.core.files import write_json
from unglow.core.reasons import Sentence, to_json
from unglow.core.records import RecordError, read_record, to_plain
from unglow.images.raw_header import TiffHeader
from unglow.images.zarr import StoreLayout

VERSION = 1
"""Of plan.json."""
ROLES = ("post", "pre")
"""The images of a pair, the reference first."""


class _Image(msgspec.Struct):
    name: str
    fingerprint: str
    header: TiffHeader
    bright_field: bool = False


class _Images(msgspec.Struct):
    post: _Image
    pre: _Image


class _Channels(msgspec.Struct):
    post: tuple[int, ...]
    pre: tuple[int, ...]


class _Layouts(msgspec.Struct):
    post: StoreLayout
    pre: StoreLayout
    derived: StoreLayout


class _File(msgspec.Struct):
    """What plan.json holds."""

    version: Literal[1]
    reason: str | None
    choice: dict[str, Any]
    images: _Images
    channels: _Channels
    layouts: _Layouts
    doubts: tuple[Sentence, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a pair, by role; ``reason`` says why it cannot be processed, if it cannot.

    Attributes
    ----------
    headers, channels, layouts
        Of each image: its header, the channels whose sum is its signal, the layout of its store.
    choice
        How the channels were chosen.
    fingerprints
        Of the raw files.
    bright_field
        Which images are bright-field, once their pixels are known.
    doubts
        Reasons that follow from the headers and a sample of the pixels.
    """

    headers: dict[str, TiffHeader]
    channels: dict[str, tuple[int, ...]]
    choice: dict[str, Any]
    layouts: dict[str, StoreLayout]
    fingerprints: dict[str, str]
    reason: str | None = None
    bright_field: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def save(self, path: Path) -> None:
        """Write plan.json: no absolute path, time or machine in it."""
        images = {}
        for role, header in self.headers.items():
            name = Path(header.path).name
            images[role] = {
                "name": name,
                "fingerprint": self.fingerprints[role],
                "header": {**to_plain(header), "path": name},
                **({"bright_field": True} if role in self.bright_field else {}),
            }
        write_json(
            path,
            {
                "version": VERSION,
                "status": "ok" if self.reason is None else "failed",
                "reason": self.reason,
                "images": images,
                "channels": {role: list(c) for role, c in self.channels.items()},
                "choice": self.choice,
                **({"doubts": to_json(self.doubts)} if self.doubts else {}),
                "layouts": to_plain(self.layouts),
            },
        )

    @classmethod
    def load(cls, path: Path, raw: dict[str, Path] | None = None) -> Plan:
        """Read plan.json; ``raw`` says where the images of each role are on this machine.

        Without it, headers name the images without a directory.

        Raises
        ------
        StoreError
            The file is damaged or from another version.
        """
        try:
            stored = read_record(path, _File)
        except RecordError as error:
            raise StoreError(
                f"{path} is not a whole plan of this version ({error}): delete it and run again."
            ) from error
        images = {role: getattr(stored.images, role) for role in ROLES}
        places = {role: image.name for role, image in images.items()} if raw is None else raw
        return cls(
            headers={role: replace(images[role].header, path=str(p)) for role, p in places.items()},
            channels={role: getattr(stored.channels, role) for role in ROLES},
            choice=stored.choice,
            layouts={key: getattr(stored.layouts, key) for key in (*ROLES, "derived")},
            fingerprints={role: image.fingerprint for role, image in images.items()},
            reason=stored.reason,
            doubts=stored.doubts,
            bright_field=tuple(role for role, image in images.items() if image.bright_field),
        )
