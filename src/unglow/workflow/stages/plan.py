"""Plan of a pair: the channels that are read, and the layouts of its stores.

It follows from the images and the configuration alone, and holds nothing about budget or threads.
"""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.digests import hash_pieces
from unglow.core.errors import ChangedError, InputError
from unglow.core.progress import step
from unglow.core.reasons import explain
from unglow.core.records import to_record
from unglow.io.ome_zarr import fingerprint as ome_zarr_fingerprint
from unglow.io.pair_plan import ROLES, Plan
from unglow.io.raw_header import find_image, find_key_file, is_ome_zarr
from unglow.io.stored_values import mask_not_stored
from unglow.io.tiff import TiffHeader
from unglow.io.zarr import open_store
from unglow.jobs.memory_limit import is_memory_failure
from unglow.workflow.channel_signal import count_overflows, is_bright_field, sample_squares
from unglow.workflow.channels import choose_channels
from unglow.workflow.header_cache import layouts

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
_OVERFLOWED = 100
"""Fewest px in the sampled squares that jump across all of the range of their type."""


def plan_pair(
    post: Path, pre: Path, headers: dict[str, dict[str, Any]], *, channel: ChannelSetting, dye: str
) -> Plan:
    """Return the plan of a pair whose headers were read while the workflow was parsed."""
    read = {
        role: to_record({**headers[role], "path": str(find_image(path))}, TiffHeader)
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
        reason = remove_directories(str(error), *headers.values())
        return Plan(headers, dict.fromkeys(ROLES, ()), {}, of_stores, fingerprints, reason)
    return Plan(headers, dict(choice.indices), asdict(choice), of_stores, fingerprints)


@step("light")
def add_light(plan: Plan, stores: Mapping[str, Path]) -> Plan:
    """Return a plan that says which images are bright-field, from their stores by role.

    It has doubts where values overflowed, or where not as many planes were projected.
    """
    bright, doubts = [], []
    post, pre = (plan.headers[role].projected for role in ROLES)
    if post != pre:
        key = "one_plane" if min(post, pre) == 1 else "unequal_planes"
        doubts.append(explain(key, post=post, pre=pre))
    for role, path in stores.items():
        store = open_store(path)
        squares = [] if store.empty else [*sample_squares(mask_not_stored(store, store.attributes))]
        count = count_overflows(squares, store.dtype) if store.dtype.kind in "iu" else 0
        if count >= _OVERFLOWED:
            doubts.append(explain("overflow", role=role, count=count))
        elif is_bright_field(squares):
            bright.append(role)
    return replace(plan, bright_field=tuple(bright), doubts=tuple(doubts))


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


def remove_directories(sentence: str, *headers: TiffHeader) -> str:
    """Return a sentence with raw files named without directories, for what goes into results."""
    for header in headers:
        sentence = sentence.replace(f"{Path(header.path).parent}{os.sep}", "")
    return sentence


@step("fingerprint")
def fingerprint(header: TiffHeader) -> str:
    """Return a digest of a raw file's size and of pieces spread evenly over it.

    It is quick for any size and detects a replaced image; whether every pixel is as it was, the
    digest of the store says.
    """
    if is_ome_zarr(header.path) and os.path.isdir(header.path):
        return ome_zarr_fingerprint(header.path)
    return hash_pieces(header.path, header.file_bytes)
