"""Markers of slides that candidates are looked for in, each as a pair: its background is pre."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unglow.multiplexed.markers import suggestion
from unglow.workflow.samples import Pair, Problem, unsafe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from unglow.io.tiff import TiffHeader
    from unglow.multiplexed.slide import Channel
    from unglow.workflow.samples import Discovery
    from unglow.workflow.settings import Settings
    from unglow.workflow.slides import KnownSlide

SUFFIX = ".candidates"
"""What the sample of such pairs is called after the name of their slide.

It is a sample of its own: in the folder of the slide, any marker may have the name of a file there.
"""
_KEY = "config key 'multiplexed.candidates'"


@dataclass(frozen=True, slots=True)
class MarkerPairs:
    """Pairs of markers with their headers, post and pre, and why others cannot be searched."""

    pairs: list[Pair] = field(default_factory=list)
    headers: dict[tuple[str, str], tuple[TiffHeader, TiffHeader]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def chosen_markers(known: KnownSlide, chosen: Sequence[str] | str) -> list[Channel]:
    """Return the markers of a slide that ``multiplexed.candidates`` names."""
    return [one for one in known.slide.markers if chosen == "all" or one.name in chosen]


def marker_pairs(
    slides: Mapping[str, KnownSlide], settings: Settings, discovery: Discovery
) -> MarkerPairs:
    """Return the pairs of the markers of slides that candidates are looked for in.

    Parameters
    ----------
    slides
        Those that can be used, by name.
    settings
        Of the run: ``multiplexed.candidates`` has the names of markers, or is ``all``.
    discovery
        All that was found, whose samples have names of their own.
    """
    chosen = settings.multiplexed.candidates
    samples = {pair.sample for pair in discovery.pairs} | {one.name for one in discovery.slides}
    found = MarkerPairs(problems=list(_unknown(slides, chosen)))
    for name, known in slides.items():
        markers = chosen_markers(known, chosen)
        if markers and name + SUFFIX in samples:
            found.problems.append(
                Problem(
                    f"Candidates in markers of the slide {name} would go to {name}{SUFFIX}, but a "
                    "sample or slide is called so already: rename its folder.",
                    "candidates",
                )
            )
            continue
        for marker in markers:
            if len(marker.backgrounds) > 1:
                sentence = (
                    f"Slide {name}: candidates are looked for in markers with one background, but "
                    f"{marker.name} has {len(marker.backgrounds)}: leave it out of {_KEY}."
                )
                found.problems.append(Problem(sentence, "candidates", name + SUFFIX, marker.name))
                continue
            pair = _pair(known, marker)
            bad = next((one for one in (pair.dye, pair.sample) if unsafe(one)), None)
            if bad is None:
                found.pairs.append(pair)
                (background,) = known.slide.backgrounds_of(marker)
                headers = known.headers[marker.image], known.headers[background.image]
                found.headers[pair.key] = headers
                continue
            sentence = (
                f"Slide {name}: candidates in {marker.name} need a folder, but the name '{bad}' "
                f"{unsafe(bad)}; rename it, or leave the marker out of multiplexed.candidates."
            )
            found.problems.append(Problem(sentence, "candidates", *pair.key))
    return found


def _unknown(slides: Mapping[str, KnownSlide], chosen: Sequence[str] | str) -> Iterator[Problem]:
    """Yield a problem for each name that is no marker of any slide."""
    channels = [one.name for known in slides.values() for one in known.slide.channels]
    markers = [name for known in slides.values() for name in known.slide.subtracted]
    for name in () if chosen == "all" or not slides else chosen:
        if name in markers:
            continue
        there = name in channels
        why = "from which nothing is subtracted" if there else "which no slide has"
        meant = suggestion(name, list(dict.fromkeys(markers)))
        end = "" if meant.endswith("?") else "."
        yield Problem(f"{_KEY} names '{name}', {why}; {meant}{end}", "candidates")


def _pair(known: KnownSlide, marker: Channel) -> Pair:
    slide = known.slide
    (background,) = slide.backgrounds_of(marker)
    move = None if marker.cycle == background.cycle else (marker.cycle, background.cycle)
    return Pair(
        slide.name + SUFFIX,
        marker.name,
        pre=slide.images[background.image],
        post=slide.images[marker.image],
        channel={"post": marker.number, "pre": background.number},
        rule=f"marker {marker.name} of the slide {slide.name}, background {background.name}",
        slide=slide.name,
        move=None if move is None else "{}-{}".format(*move),
    )
