"""``plan.json``: what was decided on a pair from its images, written and read again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unglow.core.errors import StoreError
from unglow.core.files import check_shape, read_json, write_json
from unglow.core.reasons import SHAPE, from_json, to_json
from unglow.io.raw_header import TiffHeader
from unglow.io.zarr import StoreLayout

VERSION = 1
"""Of plan.json."""
ROLES = ("post", "pre")
"""The images of a pair, the reference first."""
_IMAGE = {"name": str, "fingerprint": str, "header": {}, "bright_field?": bool}
_SHAPE = {
    "status": str,
    "reason": (None, str),
    "choice": {"names?": [str, ...]},
    "images": dict.fromkeys(ROLES, _IMAGE),
    "channels": {key: [int, ...] for key in ROLES},
    "doubts?": [SHAPE, ...],
    "layouts": {key: {} for key in (*ROLES, "derived")},
}
"""What plan.json holds; see `unglow.core.files`."""


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
                **({"doubts": to_json(self.doubts)} if self.doubts else {}),
                "layouts": {role: layout.to_dict() for role, layout in self.layouts.items()},
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
            stored = read_json(path)
            if stored["version"] != VERSION:
                raise ValueError(f"its version is {stored['version']}, not {VERSION}")  # noqa: TRY301
            check_shape(stored, _SHAPE)
            images = stored["images"]
            names = {role: image["name"] for role, image in images.items()}
            headers = {
                role: TiffHeader.from_dict({**images[role]["header"], "path": str(place)})
                for role, place in (names if raw is None else raw).items()
            }
            return cls(
                headers=headers,
                channels={role: tuple(c) for role, c in stored["channels"].items()},
                choice=stored["choice"],
                layouts={r: StoreLayout.from_dict(v) for r, v in stored["layouts"].items()},
                fingerprints={role: image["fingerprint"] for role, image in images.items()},
                reason=stored["reason"],
                doubts=tuple(from_json(stored.get("doubts", ()))),
                bright_field=tuple(r for r, v in images.items() if v.get("bright_field")),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"{path} is not a whole plan of this version ({error}): delete it and run again."
            ) from error
