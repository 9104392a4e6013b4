"""Plan of a pair: the channels that are read, and the layouts of its stores.

It follows from the images and the configuration alone, and holds nothing about budget or threads.
"""

from __future__ import annotations

import logging
import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.progress import step
from unglow.core.reasons import explain
from unglow.core.records import to_record
from unglow.images.channel_signal import count_overflows, is_bright_field, sample_squares
from unglow.images.channels import choose_channels, plan_layouts
from unglow.images.pair_plan import ROLES, Plan
from unglow.images.raw_file import fingerprint, remove_directories
from unglow.images.raw_header import find_image
from unglow.images.stored_values import mask_not_stored
from unglow.images.tiff import TiffHeader
from unglow.images.zarr import open_store
from unglow.jobs.memory_limit import is_memory_failure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unglow.images.channels import ChannelSetting


log = logging.getLogger(__name__)
_OVERFLOWED = 100
"""Fewest px in the sampled squares that jump across all of the range of their type."""
# Names of channels that are those of no dye.
_NO_DYE = re.compile(r"[RGB]|(?:ch(?:annel)?|c)?[\W_\d]*", re.IGNORECASE)


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
    of_stores = plan_layouts(post, pre, channel)
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

    It has doubts where values overflowed, where not as many planes were projected, or where
    channels that may be of several dyes were summed without being set.
    """
    bright, doubts = [], []
    dyes = [name for name in plan.choice.get("names", ()) if not _NO_DYE.fullmatch(name)]
    if len(dyes) > 1 and plan.choice["shares"]:
        doubts.append(explain("summed_dyes", names=" and ".join(dyes)))
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
