"""Plan of a pair: the channels that are read, and the layouts of its stores.

It follows from the images and the configuration alone, and holds nothing about budget or threads.
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import ChangedError, InputError, StoreError
from unglow.core.files import open_file, read_json, write_json
from unglow.core.json_shape import check_shape
from unglow.core.progress import step
from unglow.io.image_paths import find_image, find_key_file, is_ome_zarr
from unglow.io.not_stored import mask_not_stored
from unglow.io.ome_zarr import fingerprint as ome_zarr_fingerprint
from unglow.io.tiff import TiffHeader
from unglow.io.zarr import StoreLayout, open_store
from unglow.jobs.memory_limit import is_memory_failure
from unglow.workflow.channels import choose_channels
from unglow.workflow.channels.measure import is_bright_field, sampled
from unglow.workflow.header_cache import layouts
from unglow.workflow.samples import ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.workflow.channels import ChannelSetting


class RawFile:
    """A raw file that is about to be read.

    Parameters
    ----------
    header, fingerprint
        Of the file, as the plan has them.
    plan
        The file that has the fingerprint, in words.
    """

    def __init__(
        self, header: TiffHeader, fingerprint: str, plan: str = "plan.json of the pair"
    ) -> None:
        self._header, self._plan = header, plan
        self._fingerprint = fingerprint
        self._stamp = _stamp_of(Path(header.path))

    def check(self) -> None:
        """Check that the file is still the one that was there, and that the plan was made of.

        Raises
        ------
        ChangedError
            It is not.
        """
        path = Path(self._header.path)
        same = self._stamp is not None and _stamp_of(path) == self._stamp
        try:
            same = same and fingerprint(self._header) == self._fingerprint
        except OSError:
            same = False
        if not same:
            raise ChangedError(
                f"{path} was changed, replaced or cut while it was worked on, so nothing was "
                f"published; once the file is complete, run again (and delete {self._plan} if this "
                "comes again)."
            )


def files_of_slide(headers: Sequence[TiffHeader], fingerprints: Sequence[str]) -> list[RawFile]:
    """Return the images of a slide, of which ``slide.json`` has the fingerprints."""
    images = zip(headers, fingerprints, strict=True)
    return [RawFile(*one, "slide.json of the slide") for one in images]


def _stamp_of(path: Path) -> tuple[object, ...] | None:
    """Return what changes with an image: size, time and inode; None if it cannot be seen.

    A chunk of an OME-Zarr image that is put in its place changes the time of its folder.
    """
    try:
        status = find_key_file(path).stat()
        folders = os.walk(path) if is_ome_zarr(path) else ()
        times = sorted((folder, Path(folder).stat().st_mtime_ns) for folder, _, _ in folders)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino, times


log = logging.getLogger(__name__)
VERSION = 1
"""Of plan.json."""
_PIECE = 1 << 16
"""Bytes of one piece of a file that its fingerprint is made of."""
_PIECES = 64
"""Number of pieces: 4 MB are read of a file, whatever its size."""

_IMAGE = {"name": str, "fingerprint": str, "header": {}, "bright_field?": bool}
_SHAPE = {
    "status": str,
    "reason": (None, str),
    "choice": {"names?": [str, ...]},
    "images": dict.fromkeys(ROLES, _IMAGE),
    "channels": {key: [int, ...] for key in ROLES},
    "layouts": {key: {} for key in (*ROLES, "derived")},
}
"""What plan.json holds; see `unglow.core.json_shape`."""


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
        except (AttributeError, KeyError, TypeError, ValueError) as error:
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


def plan_pair(
    post: Path,
    pre: Path,
    headers: dict[str, dict[str, Any]],
    *,
    channel: ChannelSetting,
    dye: str,
) -> Plan:
    """Return the plan of a pair whose headers were read while the workflow was parsed."""
    read = {
        role: TiffHeader.from_dict({**headers[role], "path": str(find_image(path))})
        for role, path in zip(ROLES, (post, pre), strict=True)
    }
    return make_plan(read["post"], read["pre"], channel=channel, dye=dye)


def make_plan(
    post: TiffHeader, pre: TiffHeader, *, channel: ChannelSetting, dye: str | None = None
) -> Plan:
    """Choose the channels of a pair, jointly, from a sample of blocks of both images.

    Pixels that cannot be decoded, or channels that do not go together, make a plan with a reason
    instead of an exception: the pair ends as failed and the others go on.
    """
    headers = dict(zip(ROLES, (post, pre), strict=True))
    of_stores = layouts(post, pre, channel)
    fingerprints = {role: fingerprint(header) for role, header in headers.items()}
    try:
        choice = choose_channels(headers, channel=channel, dye=dye)
        check_two_files(post, pre, fingerprints)
    except InputError as error:
        if is_memory_failure(error):  # no fault of the file
            raise
        log.warning("%s", error)
        reason = without_directories(str(error), *headers.values())
        return Plan(headers, dict.fromkeys(ROLES, ()), {}, of_stores, fingerprints, reason)
    return Plan(headers, dict(choice.indices), asdict(choice), of_stores, fingerprints)


@step("light")
def with_light(plan: Plan, stores: Mapping[str, Path]) -> Plan:
    """Return a plan that says which images are bright-field, from their stores by role."""
    opened = {role: open_store(path) for role, path in stores.items()}
    bright = (
        role
        for role, store in opened.items()
        if store.empty is None
        and is_bright_field(sampled(mask_not_stored(store, store.attributes)))
    )
    return replace(plan, bright_field=tuple(bright))


def check_two_files(
    post: TiffHeader, pre: TiffHeader, fingerprints: Mapping[str, str] | None = None
) -> None:
    """Raise `InputError` if two raw files hold the same bytes.

    ``fingerprints`` are theirs by role, if they are known; if not, they are taken of files of one
    size alone. One path for both is found where pairs are found, and not looked at here.
    """
    if post.file_bytes != pre.file_bytes or post.path == pre.path:
        return
    fingerprints = fingerprints or {"post": fingerprint(post), "pre": fingerprint(pre)}
    if fingerprints["post"] == fingerprints["pre"]:
        raise InputError(
            f"{post.path} and {pre.path} hold the same bytes, so that the difference would show "
            "nothing: put the other exposure in the place of one of them."
        )


def without_directories(sentence: str, *headers: TiffHeader) -> str:
    """Return a sentence with raw files named without directories, for what goes into results."""
    for header in headers:
        sentence = sentence.replace(f"{Path(header.path).parent}{os.sep}", "")
    return sentence


@step("fingerprint")
def fingerprint(header: TiffHeader) -> str:
    """Return a digest of a raw file's size and of `_PIECES` pieces spread evenly over it.

    It is quick for any size and detects a replaced image; whether every pixel is as it was, the
    digest of the store says.
    """
    if is_ome_zarr(header.path):
        return ome_zarr_fingerprint(header.path)
    digest = hashlib.sha256(str(header.file_bytes).encode())
    with open_file(header.path) as stream:
        for piece in range(_PIECES):
            stream.seek(piece * max(0, header.file_bytes - _PIECE) // (_PIECES - 1))
            digest.update(stream.read(_PIECE))
    return digest.hexdigest()
