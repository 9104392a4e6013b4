"""The channel setting: what it names, and the dtype that follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from unglow.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.io.tiff import ChannelInfo

ChannelSetting: TypeAlias = "str | Mapping[str, int]"
"""Which channel is read: the setting of a pair, or the number in each image (``post``, ``pre``)."""
AUTO = "auto"
_ALIASES = {"red": "R", "green": "G", "blue": "B"}
_WIDER = {
    "uint8": "uint16",
    "int8": "int16",
    "uint16": "uint32",
    "int16": "int32",
    "uint32": "uint64",
    "int32": "int64",
}


def setting_for(setting: ChannelSetting, image: str) -> str:
    """Return the setting of one image of a pair, ``post`` or ``pre``."""
    return setting if isinstance(setting, str) else str(setting[image])


def stored_dtype(
    dtype: str, n_channels: int, channel: str = AUTO, names: Sequence[str] = ()
) -> str:
    """Return the dtype of the store of an image, from its header and the configuration alone.

    One channel keeps the file's dtype. ``auto`` on several channels, or a sum, takes the next wider
    integer, whatever is chosen later. Floating point is stored as float32.

    Parameters
    ----------
    dtype
        Of the file.
    n_channels
        Number of its channels without alpha.
    channel
        The setting, see `choose_channels`.
    names
        Names of the channels, so that one called ``CD3+CD4`` is not taken for a sum.
    """
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return "float32"
    if kind.kind == "b":
        kind = np.dtype(np.uint8)
    setting = channel.strip()
    single = setting.casefold() in {name.casefold() for name in names}
    summed = setting.casefold() == AUTO or (len(_terms(setting)) > 1 and not single)
    return _WIDER.get(kind.name, kind.name) if summed and n_channels > 1 else kind.name


def parse_channels(setting: str, channels: Sequence[ChannelInfo], where: str) -> tuple[int, ...]:
    """Return the numbers of the channels that a setting names.

    Parameters
    ----------
    setting
        A name, a number from 0, or a sum of those; names go before numbers.
    channels
        What the image has. Of a single channel (apart from alpha) every setting means that one.
    where
        The image, for messages.

    Raises
    ------
    InputError
        A channel is absent, alpha, named twice, or its name is not unique; lists what there is.
    """
    numbers = usable(channels)
    if len(numbers) == 1:
        return (numbers[0],)
    whole = _named(setting.strip(), channels)
    terms = [setting.strip()] if whole else _terms(setting)
    found = [_one(term, channels, where) for term in terms]
    if len(set(found)) < len(found):
        raise InputError(f"channel '{setting}' names a channel of {where} twice; name it once.")
    return tuple(found)


def usable(channels: Sequence[ChannelInfo]) -> list[int]:
    """Return the numbers of the channels that are not alpha."""
    return [i for i, channel in enumerate(channels) if not channel.alpha]


def list_names(channels: Sequence[ChannelInfo]) -> str:
    """Return names with numbers, without alpha: 'R (0), G (1), B (2)'."""
    return ", ".join(
        str(i) if channels[i].name == str(i) else f"{channels[i].name} ({i})"
        for i in usable(channels)
    )


def _terms(setting: str) -> list[str]:
    """Split a sum; a plus sign at either end belongs to a name (CD3+)."""
    parts = [part.strip() for part in setting.split("+")]
    return parts if all(parts) else [setting.strip()]


def _named(term: str, channels: Sequence[ChannelInfo]) -> list[int]:
    """Return the channels of a name, in any letter case."""
    wanted = {term.casefold(), _ALIASES.get(term.casefold(), term).casefold()}
    exact = [i for i, c in enumerate(channels) if c.name == term]
    return exact or [i for i, c in enumerate(channels) if c.name.casefold() in wanted]


def _one(term: str, channels: Sequence[ChannelInfo], where: str) -> int:
    """Return the number of one channel."""
    found = _named(term, channels)
    if not found and term.isdecimal() and int(term) < len(channels):
        found = [int(term)]
    if len(found) > 1:
        raise InputError(
            f"{where} has {len(found)} channels named '{term}'; give the number of one, from "
            f"{list_names(channels)}."
        )
    if not found:
        raise InputError(
            f"{where} has no channel '{term}'; set `channel` to auto or one of "
            f"{list_names(channels)}."
        )
    if channels[found[0]].alpha:
        raise InputError(
            f"channel '{term}' of {where} is alpha, which holds no signal; set `channel` to auto "
            f"or one of {list_names(channels)}."
        )
    return found[0]
