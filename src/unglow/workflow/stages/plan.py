"""The plan of a pair: which channels are read, and how the stores are laid out.

It follows from the images and the configuration alone, and holds nothing about budget or threads.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError, StoreError
from unglow.core.files import open_regular, write_json
from unglow.core.progress import step
from unglow.io.tiff import TiffHeader
from unglow.io.zarr import StoreLayout
from unglow.jobs.memory_limit import is_memory_failure
from unglow.workflow.channels import choose_channels
from unglow.workflow.header_cache import layouts
from unglow.workflow.samples import ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)
VERSION = 1
_PIECE = 1 << 16
_PIECES = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """What `make_plan` decided; ``reason`` is the sentence of a pair that cannot be processed."""

    headers: dict[str, TiffHeader]
    channels: dict[str, tuple[int, ...]]
    choice: dict[str, Any]
    layouts: dict[str, StoreLayout]
    fingerprints: dict[str, str]
    reason: str | None = None

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
            return cls._from_json(json.loads(path.read_text(encoding="utf-8")), raw)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"{path} is not a whole plan of this version ({error}): delete it and run again."
            ) from error

    @classmethod
    def _from_json(cls, stored: dict[str, Any], raw: dict[str, Path]) -> Plan:
        if stored["version"] != VERSION:
            raise ValueError(f"its version is {stored['version']}, not {VERSION}")
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
        )


def plan_pair(
    post: Path,
    pre: Path,
    headers: dict[str, dict[str, Any]],
    *,
    channel: str,
    dye: str,
) -> Plan:
    """Return the plan of a pair whose headers were read while the workflow was parsed."""
    read = {
        role: TiffHeader.from_dict({**headers[role], "path": str(path)})
        for role, path in zip(ROLES, (post, pre), strict=True)
    }
    return make_plan(read["post"], read["pre"], channel=channel, dye=dye)


def make_plan(post: TiffHeader, pre: TiffHeader, *, channel: str, dye: str | None = None) -> Plan:
    """Choose the channels of a pair, jointly, from a sample of blocks of both images.

    Pixels that cannot be decoded, or channels that do not go together, make a plan with a reason
    instead of an exception: the pair ends as failed and the others go on.
    """
    headers = dict(zip(ROLES, (post, pre), strict=True))
    made = layouts(post, pre, channel)
    prints = {role: fingerprint(header) for role, header in headers.items()}
    try:
        choice = choose_channels(headers, channel=channel, dye=dye)
        check_two_files(post, pre, prints)
    except InputError as error:
        if is_memory_failure(error):  # no fault of the file
            raise
        log.warning("%s", error)
        nothing: dict[str, tuple[int, ...]] = dict.fromkeys(ROLES, ())
        reason = without_directories(str(error), *headers.values())
        return Plan(headers, nothing, {}, made, prints, reason)
    return Plan(headers, dict(choice.indices), asdict(choice), made, prints)


def check_two_files(
    post: TiffHeader, pre: TiffHeader, prints: Mapping[str, str] | None = None
) -> None:
    """Raise `InputError` if two raw files are one.

    ``prints`` are their fingerprints by role, if they are known; they are taken if not, of files of
    one size alone. That one path stands for both is found where pairs are, and not looked at here.
    """
    if post.file_bytes != pre.file_bytes or post.path == pre.path:
        return
    known = prints or {"post": fingerprint(post), "pre": fingerprint(pre)}
    if known["post"] == known["pre"]:
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
    """Return a digest of a raw file's size and of 64 pieces of 64 kB spread evenly over it.

    It is quick for any size and tells a replaced image; that every pixel is as it was is the
    digest of the store.
    """
    digest = hashlib.sha256(str(header.file_bytes).encode())
    with os.fdopen(open_regular(header.path), "rb") as stream:
        for piece in range(_PIECES):
            stream.seek(piece * max(0, header.file_bytes - _PIECE) // (_PIECES - 1))
            digest.update(stream.read(_PIECE))
    return digest.hexdigest()
