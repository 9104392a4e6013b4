"""Which channels carry the signal, decided once per pair for both images together.

Each image is sampled by blocks. In each channel the background level and the noise are estimated
robustly, and what rises above both is summed: the channel's signal. A channel is taken if its share
of the signal, averaged over the images of the pair, is at least `TAKEN`, and if it is seen (`SEEN`)
in each image that shows a signal at all. So bleed-through into another channel of one image alone,
or the colour noise of JPEG, changes nothing. Several channels are summed when they are read.

On a bright background (transmitted light) what falls below it is the signal. Alpha never counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import parse_whole
from unglow.core.progress import step
from unglow.images.channel_signal import measure, usable
from unglow.images.pair_plan import ROLES
from unglow.images.raw_images import survey_blocks
from unglow.images.zarr.layout import plan_layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.images.channel_signal import ChannelSample
    from unglow.images.tiff import ChannelInfo, TiffHeader
    from unglow.images.zarr import StoreLayout


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
#: Smallest share of the signal, averaged over the images of a pair, of a channel that is taken.
TAKEN = 0.2
#: Smallest share in each single image of a channel that is taken.
SEEN = 0.05
#: Blocks per image that are looked at, and their side, px.
BLOCKS, SIDE = 64, 128


@dataclass(frozen=True, slots=True)
class ChannelChoice:
    """The channels of a pair that are read, and why.

    Attributes
    ----------
    indices
        Per image (``post``, ``pre``), the numbers of its channels; several are summed.
    names
        Names of the channels, in the order of ``indices``.
    shares
        Per image, each channel's share of the signal (0 to 1); empty if nothing was measured.
    joint
        Each channel's share averaged over the images that show a signal.
    reason
        One sentence.
    """

    indices: dict[str, tuple[int, ...]]
    names: tuple[str, ...]
    shares: dict[str, dict[str, float]]
    joint: dict[str, float]
    reason: str


@step("channels")
def choose_channels(
    headers: Mapping[str, TiffHeader], *, channel: ChannelSetting = AUTO, dye: str | None = None
) -> ChannelChoice:
    """Choose the channels of a pair from its images.

    Parameters
    ----------
    headers
        Per image of the pair (``post``, ``pre``) its header.
    channel
        ``auto``, a name (R, G, B or one of an OME-TIFF; letter case does not matter), a number
        from 0, or a sum of those such as ``R+G``; or the number in each image.
    dye
        With ``auto``, the channel of this name is taken where every image has one.

    Raises
    ------
    InputError
        There is no such channel, the images do not go together, or a sampled block cannot be
        decoded.
    """
    settled = choose_by_headers(headers, channel=channel, dye=dye)
    if settled is not None:
        return settled
    samples = {
        image: measure(survey_blocks(header, BLOCKS, SIDE), header.channels)
        for image, header in headers.items()
    }
    return decide(samples)


def decide(samples: Mapping[str, ChannelSample]) -> ChannelChoice:
    """Choose the channels of a pair from what was measured in each image.

    Raises
    ------
    InputError
        The images show their signal in different channels.
    """
    first = next(iter(samples.values()))
    names = first.names
    shares = {
        image: {n: s.shares[n] for n in names}
        if set(s.names) == set(names)
        else dict(zip(names, s.shares.values(), strict=True))
        for image, s in samples.items()
    }
    lit = [image for image, share in shares.items() if any(share.values())]
    joint = {
        name: round(sum(shares[image][name] for image in lit) / len(lit), 4) if lit else 0.0
        for name in names
    }
    if not lit:
        spread = dict(zip(first.names, first.spread, strict=True))
        taken = [max(names, key=spread.__getitem__)]
        reason = f"no channel rises above its noise in the sampled blocks; {taken[0]} is taken"
    elif all(s.equal for s in samples.values()):
        taken = [names[0]]
        reason = f"{_join_words(names)} are equal; {taken[0]} is taken"
    else:
        taken = [n for n in names if joint[n] >= TAKEN and all(shares[i][n] >= SEEN for i in lit)]
        if not taken:
            raise InputError(_describe_disagreement(shares))
        reason = _describe_share(taken, joint)
    dark = [image for image in samples if image not in lit]
    if lit and dark:
        reason += f" (nothing rises above the noise in {_join_words(dark)})"
    indices = {image: _find_numbers(s, names, taken) for image, s in samples.items()}
    return ChannelChoice(indices, tuple(taken), shares, joint, reason + ".")


def choose_by_headers(
    headers: Mapping[str, TiffHeader], *, channel: ChannelSetting = AUTO, dye: str | None = None
) -> ChannelChoice | None:
    """Choose the channels of a pair where headers and setting leave nothing to measure.

    Parameters are those of `choose_channels`; None if the pixels have to say it.

    Raises
    ------
    InputError
        There is no such channel, or the images have different numbers of them and none is named.
    """
    channels = {image: header.channels for image, header in headers.items()}
    indices: dict[str, tuple[int, ...]]
    if not isinstance(channel, str):
        named = {image: channels[image][number].name for image, number in channel.items()}
        listed = _join_words([f"{name} of {image}" for image, name in named.items()])
        indices = {image: (number,) for image, number in channel.items()}
        return ChannelChoice(indices, (named["post"],), {}, {}, f"{listed} are set for this pair.")
    candidates = {image: usable(infos) for image, infos in channels.items()}
    for image, numbers in candidates.items():
        if not numbers:
            raise InputError(
                f"{headers[image].path} has no channel but alpha; export it with colours."
            )
    if channel.strip().casefold() != AUTO:
        indices = {i: parse_channels(channel, c, f"the {i} image") for i, c in channels.items()}
        richest = max(indices, key=lambda image: len(channels[image]))
        names = tuple(channels[richest][n].name for n in indices[richest])
        reason = f"{_join_words(names)} {'is' if len(names) == 1 else 'are'} set by `channel`."
        return ChannelChoice(indices, names, {}, {}, reason)
    counts = {len(numbers) for numbers in candidates.values()}
    if counts == {1}:
        indices = {image: tuple(numbers) for image, numbers in candidates.items()}
        some = next(iter(channels))
        names = (channels[some][indices[some][0]].name,)
        return ChannelChoice(indices, names, {}, {}, "the images have a single channel.")
    found = _find_dye(channels, dye)
    if found is None and len(counts) > 1:
        raise InputError(_describe_counts(headers))
    return found


def _describe_counts(headers: Mapping[str, TiffHeader]) -> str:
    """Say that images have different numbers of channels, and what to set."""
    counts = {image: len(usable(header.channels)) for image, header in headers.items()}
    several = [f"{headers[image].path} has {n} channels" for image, n in counts.items() if n > 1]
    single = [f"{headers[image].path} has one" for image, n in counts.items() if n == 1]
    richest = max(counts, key=lambda image: counts[image])
    return (
        f"{_join_words([*several, *single])}: set `channel` to one of "
        f"{list_names(headers[richest].channels)}."
    )


def _find_dye(
    channels: Mapping[str, Sequence[ChannelInfo]], dye: str | None
) -> ChannelChoice | None:
    """Take the channel that is called as the dye, where each image has exactly one."""
    if dye is None:
        return None
    hits = {
        image: [n for n in usable(infos) if infos[n].name.casefold() == dye.casefold()]
        for image, infos in channels.items()
    }
    if any(len(numbers) != 1 for numbers in hits.values()):
        return None
    indices = {image: tuple(numbers) for image, numbers in hits.items()}
    some = next(iter(channels))
    name = channels[some][indices[some][0]].name
    return ChannelChoice(indices, (name,), {}, {}, f"channel {name} has the name of the dye.")


def _find_numbers(
    sample: ChannelSample, names: tuple[str, ...], taken: Sequence[str]
) -> tuple[int, ...]:
    """Return the channel numbers of an image: by name where all share them, else by place."""
    by_name = set(sample.names) == set(names)
    own = sample.names if by_name else names
    return tuple(sample.numbers[own.index(name)] for name in taken)


def _describe_disagreement(shares: Mapping[str, Mapping[str, float]]) -> str:
    strongest = []
    for image, share in shares.items():
        best = max(share, key=lambda n: share[n])
        strongest.append(f"{best} in {image} ({100 * share[best]:.0f} %)")
    return (
        f"no channel carries signal in both images, most of it is {' and '.join(strongest)}: set "
        "`channel` to the one that holds the stain."
    )


def _describe_share(taken: Sequence[str], joint: Mapping[str, float]) -> str:
    part = f"{100 * sum(joint[n] for n in taken):.0f} %"
    if len(taken) == 1:
        return f"{taken[0]} carries {part} of the signal"
    return f"{_join_words(taken)} carry {part} of the signal and are summed"


def _join_words(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))


def setting_for(setting: ChannelSetting, image: str) -> str:
    """Return the setting of one image of a pair, ``post`` or ``pre``."""
    return setting if isinstance(setting, str) else str(setting[image])


def find_stored_dtype(
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
    summed = setting.casefold() == AUTO or (len(_split_sum(setting)) > 1 and not single)
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
    whole = _find_named(setting.strip(), channels)
    terms = [setting.strip()] if whole else _split_sum(setting)
    found = [_find_one(term, channels, where) for term in terms]
    if len(set(found)) < len(found):
        raise InputError(f"channel '{setting}' names a channel of {where} twice; name it once.")
    return tuple(found)


def list_names(channels: Sequence[ChannelInfo]) -> str:
    """Return names with numbers, without alpha: 'R (0), G (1), B (2)'."""
    return ", ".join(
        str(i) if channels[i].name == str(i) else f"{channels[i].name} ({i})"
        for i in usable(channels)
    )


def _split_sum(setting: str) -> list[str]:
    """Split a sum; a plus sign at either end belongs to a name (CD3+)."""
    parts = [part.strip() for part in setting.split("+")]
    return parts if all(parts) else [setting.strip()]


def _find_named(term: str, channels: Sequence[ChannelInfo]) -> list[int]:
    """Return the channels of a name, in any letter case."""
    wanted = {term.casefold(), _ALIASES.get(term.casefold(), term).casefold()}
    exact = [i for i, c in enumerate(channels) if c.name == term]
    return exact or [i for i, c in enumerate(channels) if c.name.casefold() in wanted]


def _find_one(term: str, channels: Sequence[ChannelInfo], where: str) -> int:
    """Return the number of one channel."""
    found = _find_named(term, channels)
    number = parse_whole(term)
    if not found and number is not None and number < len(channels):
        found = [number]
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


def find_stored_type(header: TiffHeader, channel: str) -> str:
    """Return the dtype of the store of an image, from its header and the channel setting alone."""
    count = sum(not info.alpha for info in header.channels)
    return find_stored_dtype(header.dtype, count, channel, [info.name for info in header.channels])


def plan_layouts(
    post: TiffHeader, pre: TiffHeader, channel: ChannelSetting
) -> dict[str, StoreLayout]:
    """Return the store layouts of a pair, from the images and the channel setting alone."""
    of_images = {
        role: plan_layout(
            header.shape,
            find_stored_type(header, setting_for(channel, role)),
            by_rows=header.preferred == "rows",
        )
        for role, header in zip(ROLES, (post, pre), strict=True)
    }
    return {**of_images, "derived": plan_layout(post.shape, "float32")}
