"""The choice of the channels of a pair that are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.core.progress import step
from unglow.io.raw_images import survey_blocks
from unglow.workflow.channels.measure import measure
from unglow.workflow.channels.setting import AUTO, list_names, parse_channels, usable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.io.tiff import ChannelInfo, TiffHeader
    from unglow.workflow.channels.measure import ChannelSample
    from unglow.workflow.channels.setting import ChannelSetting

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
    channels = {image: header.channels for image, header in headers.items()}
    settled = _without_pixels(channels, channel, dye)
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
        The images have different channels, or show their signal in different ones.
    """
    first = next(iter(samples.values()))
    names = _common_names(samples)
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
        taken = [max(names, key=lambda n: spread.get(n, 0.0))]
        reason = f"no channel rises above its noise in the sampled blocks; {taken[0]} is taken"
    elif all(s.equal for s in samples.values()):
        taken = [names[0]]
        reason = f"{_and(names)} are equal; {taken[0]} is taken"
    else:
        taken = [n for n in names if joint[n] >= TAKEN and all(shares[i][n] >= SEEN for i in lit)]
        if not taken:
            raise InputError(_apart(shares))
        reason = _carries(taken, joint)
    dark = [image for image in samples if image not in lit]
    if lit and dark:
        reason += f" (nothing rises above the noise in {_and(dark)})"
    indices = {image: _numbers(s, names, taken) for image, s in samples.items()}
    return ChannelChoice(indices, tuple(taken), shares, joint, reason + ".")


def _without_pixels(
    channels: Mapping[str, Sequence[ChannelInfo]], setting: ChannelSetting, dye: str | None
) -> ChannelChoice | None:
    """Choose where headers and setting leave nothing to measure."""
    indices: dict[str, tuple[int, ...]]
    if not isinstance(setting, str):
        named = {image: channels[image][number].name for image, number in setting.items()}
        listed = _and([f"{name} of {image}" for image, name in named.items()])
        indices = {image: (number,) for image, number in setting.items()}
        return ChannelChoice(indices, (named["post"],), {}, {}, f"{listed} are set for this pair.")
    candidates = {image: usable(infos) for image, infos in channels.items()}
    for image, numbers in candidates.items():
        if not numbers:
            raise InputError(f"the {image} image has no channel but alpha; export it with colours.")
    if setting.strip().casefold() != AUTO:
        indices = {i: parse_channels(setting, c, f"the {i} image") for i, c in channels.items()}
        richest = max(indices, key=lambda image: len(channels[image]))
        names = tuple(channels[richest][n].name for n in indices[richest])
        reason = f"{_and(names)} {'is' if len(names) == 1 else 'are'} set by `channel`."
        return ChannelChoice(indices, names, {}, {}, reason)
    counts = {image: len(numbers) for image, numbers in candidates.items()}
    if set(counts.values()) == {1}:
        indices = {image: tuple(numbers) for image, numbers in candidates.items()}
        some = next(iter(channels))
        names = (channels[some][indices[some][0]].name,)
        return ChannelChoice(indices, names, {}, {}, "the images have a single channel.")
    if 1 in counts.values():
        single = _and([i for i, n in counts.items() if n == 1])
        several = next(i for i, n in counts.items() if n > 1)
        have = list_names(channels[several])
        raise InputError(
            f"the {single} image has one channel and the {several} image {counts[several]} "
            f"({have}): set `channel` to the one that matches."
        )
    return _of_dye(channels, dye)


def _of_dye(channels: Mapping[str, Sequence[ChannelInfo]], dye: str | None) -> ChannelChoice | None:
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


def _common_names(samples: Mapping[str, ChannelSample]) -> tuple[str, ...]:
    """Return the names by which the channels of all images are matched."""
    (one, first), *others = samples.items()
    for image, sample in others:
        if len(sample.names) != len(first.names):
            raise InputError(
                f"the {one} image has {len(first.names)} channels ({', '.join(first.names)}) and "
                f"the {image} image {len(sample.names)} ({', '.join(sample.names)}): set `channel` "
                "to one that both have."
            )
    return first.names


def _numbers(
    sample: ChannelSample, names: tuple[str, ...], taken: Sequence[str]
) -> tuple[int, ...]:
    """Return the channel numbers of an image: by name where all share them, else by place."""
    by_name = set(sample.names) == set(names)
    own = sample.names if by_name else names
    return tuple(sample.numbers[own.index(name)] for name in taken)


def _apart(shares: Mapping[str, Mapping[str, float]]) -> str:
    strongest = []
    for image, share in shares.items():
        best = max(share, key=lambda n: share[n])
        strongest.append(f"{best} in {image} ({100 * share[best]:.0f} %)")
    return (
        f"no channel carries signal in both images, most of it is {' and '.join(strongest)}: set "
        "`channel` to the one that holds the stain."
    )


def _carries(taken: Sequence[str], joint: Mapping[str, float]) -> str:
    part = f"{100 * sum(joint[n] for n in taken):.0f} %"
    if len(taken) == 1:
        return f"{taken[0]} carries {part} of the signal"
    return f"{_and(taken)} carry {part} of the signal and are summed"


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))
