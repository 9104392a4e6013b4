"""``plan.json``: what was decided on a pair from its images, written and read again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.archive import damaged
from unglow.core.errors import StoreError
from unglow.core.files import read_json, write_json
from unglow.core.json_shape import check_shape
from unglow.io.tiff import TiffHeader
from unglow.io.zarr import StoreLayout

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
"""Of plan.json."""
_ROLES = ("post", "pre")
_IMAGE = {"name": str, "fingerprint": str, "header": {}, "bright_field?": bool}
_SHAPE = {
    "status": str,
    "reason": (None, str),
    "choice": {"names?": [str, ...]},
    "images": dict.fromkeys(_ROLES, _IMAGE),
    "channels": {key: [int, ...] for key in _ROLES},
    "layouts": {key: {} for key in (*_ROLES, "derived")},
}
"""What plan.json holds; see `unglow.core.json_shape`."""
_OF_RECORD = {
    **{name: _SHAPE[name] for name in ("status", "reason", "choice")},
    "images?": {...: {"fingerprint?": str, "header?": {}, "bright_field?": bool}},
    "channels?": {...: [int, ...]},
}
_UNFIT = (AttributeError, KeyError, TypeError, ValueError)


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
    """

    headers: dict[str, TiffHeader]
    channels: dict[str, tuple[int, ...]]
    choice: dict[str, Any]
    layouts: dict[str, StoreLayout]
    fingerprints: dict[str, str]
    reason: str | None = None
    bright_field: tuple[str, ...] = ()

    @property
    def pixel_size_um(self) -> tuple[float, float] | None:
        """(x, y) size of a px in the post frame, micrometres, if its header has it."""
        return self.headers["post"].pixel_size_um

    def save(self, path: Path) -> None:
        """Write plan.json: no absolute path, time or machine in it."""
        images = {}
        for role, header in self.headers.items():
            name = Path(header.path).name
            images[role] = {
                "name": name,
                "fingerprint": self.fingerprints[role],
                "header": {**header.to_dict(), "path": name},
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
                "layouts": {role: layout.to_dict() for role, layout in self.layouts.items()},
            },
        )

    @classmethod
    def load(cls, path: Path, raw: dict[str, Path]) -> Plan:
        """Read plan.json; ``raw`` says where the images of each role are on this machine.

        Raises
        ------
        StoreError
            The file is damaged or from another version.
        """
        try:
            return cls._from_json(read_json(path), raw)
        except _UNFIT as error:
            raise StoreError(
                f"{path} is not a whole plan of this version ({error}): delete it and run again."
            ) from error

    @classmethod
    def _from_json(cls, stored: dict[str, Any], raw: dict[str, Path]) -> Plan:
        if stored["version"] != VERSION:
            raise ValueError(f"its version is {stored['version']}, not {VERSION}")
        check_shape(stored, _SHAPE)
        headers = {
            role: TiffHeader.from_dict({**image["header"], "path": str(raw[role])})
            for role, image in stored["images"].items()
            if role in raw
        }
        return cls(
            headers=headers,
            channels={role: tuple(c) for role, c in stored["channels"].items()},
            choice=stored["choice"],
            layouts={r: StoreLayout.from_dict(v) for r, v in stored["layouts"].items()},
            fingerprints={r: v["fingerprint"] for r, v in stored["images"].items()},
            reason=stored["reason"],
            bright_field=tuple(r for r, v in stored["images"].items() if v.get("bright_field")),
        )


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A plan as its readers need it, without the raw images; old plans may lack parts.

    Attributes
    ----------
    reason
        Why the pair cannot be processed; None if it can.
    channel_names
        Of the channels whose sum is the signal.
    fingerprints, planes, channels
        Of each image: the raw file, the plane of it in words, and the indices of its channels.
    bright_field
        Which images are bright-field.
    """

    reason: str | None
    channel_names: tuple[str, ...]
    fingerprints: Mapping[str, str]
    planes: Mapping[str, str]
    channels: Mapping[str, list[int]]
    bright_field: tuple[str, ...]

    @classmethod
    def load(cls, path: Path) -> PlanRecord:
        """Read plan.json; StoreError if it is damaged."""
        try:
            stored = read_json(path)
            check_shape(stored, _OF_RECORD)
            images = stored.get("images", {})
            reason = stored["reason"] or "It was refused."
            return cls(
                reason if stored["status"] == "failed" else None,
                tuple(stored["choice"].get("names", ())),
                {role: image.get("fingerprint", "") for role, image in images.items()},
                {role: str(image.get("header", {}).get("plane")) for role, image in images.items()},
                stored.get("channels", {}),
                tuple(role for role in _ROLES if images.get(role, {}).get("bright_field")),
            )
        except _UNFIT as error:
            raise damaged(path) from error
