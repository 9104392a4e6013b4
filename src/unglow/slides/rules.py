"""Slides of a run: headers and channels, a problem for each that cannot be used, pairs of markers.

A slide whose subtraction was refused has no corrected image, and no run asks for one. Snakemake
wants each output of a job to exist when the job has ended, so that job leaves an empty file in the
place of each image. These files are removed when the run ends.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.images.raw_header import is_ome_zarr
from unglow.images.slide_plan import CANDIDATES_SUFFIX, Channel, KnownSlide, Slide
from unglow.images.tiff.series import CHANNELS, MARKERS
from unglow.images.zarr.layout import DOCUMENT, DTYPES
from unglow.registration.settings import DECLARED
from unglow.slides import resources
from unglow.slides.channels import choose_registered, name_markers, reference_cycle, slide_of
from unglow.slides.markers import read_markers, suggestion
from unglow.slides.slide import INTERPOLATE
from unglow.workflow.batch import FoundSlides, SlideRules, find_refused
from unglow.workflow.header_cache import check_name, not_storable
from unglow.workflow.samples.naming import explain_unsafe
from unglow.workflow.samples.pair import Pair, Problem
from unglow.workflow.stage_table import CORRECTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from unglow.images.tiff import TiffHeader
    from unglow.slides.markers import Marker
    from unglow.workflow.header_cache import HeaderCache
    from unglow.workflow.samples.pair import Discovery, SlideFiles
    from unglow.workflow.settings import Settings

_KEY = "config key 'multiplexed.candidates'"


def remove_placeholders(results: Path, names: Iterable[str]) -> None:
    """Remove the empty files of those of some slides that were refused."""
    for name in find_refused(results, names):
        for image in (results / name / corrected for corrected in CORRECTED.values()):
            # what cannot be removed, or is no stump, is left
            with contextlib.suppress(OSError):
                if not image.stat().st_size:
                    image.unlink()
                    if image.name == DOCUMENT:
                        image.parent.rmdir()


def read_slides(
    found: Iterable[SlideFiles], settings: Settings, cache: HeaderCache
) -> tuple[dict[str, KnownSlide], list[Problem]]:
    """Look at headers and tables of slides; return those that can be used, and problems."""
    slides: dict[str, KnownSlide] = {}
    problems = []
    for files in found:
        try:
            slides[files.name] = _read_slide(files, settings, cache)
        except InputError as error:
            paths = files.images if files.table is None else (files.table, *files.images)
            problems.append(Problem(str(error), "slide", files.name, None, paths))
    return slides, problems


def _read_slide(files: SlideFiles, settings: Settings, cache: HeaderCache) -> KnownSlide:
    """Read what is known of a slide; `InputError` if it cannot be used."""
    if not files.images:
        raise InputError(
            f"{files.table} is a table of markers, but no image is next to it: add one of all "
            "channels, or one for each cycle."
        )
    plane = settings.plane
    for path in files.images:
        check_name(path)
    chosen, z = {"series": settings.series, "t": plane.t}, plane.z
    unsaid = CHANNELS if files.table is None else MARKERS
    headers = tuple(
        # a plain stack says nothing of its pages, or the wrong thing: they are channels
        cache.read(path, z=unsaid if z is None and not is_ome_zarr(path) else z, **chosen)
        for path in files.images
    )
    for header in headers:
        if header.dtype not in DTYPES:
            raise InputError(not_storable(header))
    rows, origin = _markers(files, headers, settings, cache)
    slide = slide_of(files.name, headers, rows, origin)
    _check_exposures(slide, settings)
    slide = replace(
        slide,
        reference=reference_cycle(slide, settings.multiplexed.reference),
        paired=_find_paired_cycles(slide, settings.multiplexed.candidates),
        checked=settings.register.model != DECLARED,
    )
    on = choose_registered(slide, settings.register.on)
    own_cells = {row.name: row.own_cells for row in rows if row.own_cells and not row.removed}
    return KnownSlide(replace(slide, registered_on=on), headers, own_cells)


def _markers(
    files: SlideFiles, headers: Sequence[TiffHeader], settings: Settings, cache: HeaderCache
) -> tuple[Sequence[Marker], str]:
    """Return the channels of a slide, and where they come from."""
    rows: Sequence[Marker] = () if files.table is None else read_markers(files.table)
    if any(row.exposure is not None for row in rows):
        return rows, str(files.table)
    times = [time for header in headers for time in cache.exposures(header)]
    if files.table is None:
        backgrounds = settings.multiplexed.backgrounds
        return name_markers(files.name, headers, times, backgrounds), "config key 'multiplexed'"
    if len(times) == len(rows):
        rows = [replace(row, exposure=time) for row, time in zip(rows, times, strict=True)]
    return rows, str(files.table)


def _find_paired_cycles(slide: Slide, chosen: Sequence[str] | str) -> tuple[tuple[int, int], ...]:
    """Return the cycles of markers that candidates are looked for in, and of their backgrounds."""
    markers = (one for one in select_markers(slide, chosen) if len(one.backgrounds) == 1)
    cycles = {(one.cycle, slide.channel(one.backgrounds[0]).cycle) for one in markers}
    return tuple(sorted((a, b) for a, b in cycles if a != b))


def _check_exposures(slide: Slide, settings: Settings) -> None:
    """Refuse to take gains from exposure times that are not known."""
    several = settings.multiplexed.several_backgrounds == INTERPOLATE
    by_times = "exposure" in (*settings.scale.methods, settings.scale.default)
    for marker in slide.markers:
        if not by_times and not (several and len(marker.backgrounds) > 1):
            continue
        for channel in (marker, *slide.backgrounds_of(marker)):
            if channel.exposure is None:
                asked = (
                    "scale.methods asks for (exposure)"
                    if by_times
                    else "multiplexed.several_backgrounds asks for (interpolate)"
                )
                raise InputError(
                    f"slide {slide.name}: the exposure time of {channel.name} is not known, which "
                    f"{asked}; give it in the column exposure of markers.csv, or take another "
                    "method."
                )


def select_markers(slide: Slide, chosen: Sequence[str] | str) -> list[Channel]:
    """Return the markers of a slide that ``multiplexed.candidates`` names."""
    return [one for one in slide.markers if chosen == "all" or one.name in chosen]


def marker_pairs(
    slides: Mapping[str, KnownSlide], settings: Settings, discovery: Discovery
) -> FoundSlides:
    """Return slides with the pairs of their markers that candidates are looked for in.

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
    found = FoundSlides({**slides}, problems=[*_find_unknown(slides, chosen)])
    for name, known in slides.items():
        sample, markers = name + CANDIDATES_SUFFIX, select_markers(known.slide, chosen)
        if markers and sample in samples:
            found.problems.append(
                Problem(
                    f"Candidates in markers of the slide {name} would go to {sample}, but a sample "
                    "or slide is called so already: rename its folder.",
                    "candidates",
                )
            )
            continue
        for marker in markers:
            why = _find_fault(marker, sample)
            if why is not None:
                sentence = f"Slide {name}: candidates {why}."
                found.problems.append(Problem(sentence, "candidates", sample, marker.name))
                continue
            pair = _make_pair(known, marker)
            found.pairs.append(pair)
            (background,) = known.slide.backgrounds_of(marker)
            found.headers[pair.key] = known.headers[marker.image], known.headers[background.image]
    return found


def _find_fault(marker: Channel, sample: str) -> str | None:
    """Return why candidates cannot be looked for in a marker, as the end of a sentence."""
    if len(marker.backgrounds) > 1:
        return (
            f"are looked for in markers with one background, but {marker.name} has "
            f"{len(marker.backgrounds)}: leave it out of {_KEY}"
        )
    bad = next((one for one in (marker.name, sample) if explain_unsafe(one)), None)
    if bad is None:
        return None
    return (
        f"in {marker.name} need a folder, but the name '{bad}' {explain_unsafe(bad)}; rename it, "
        "or leave the marker out of multiplexed.candidates"
    )


def _find_unknown(
    slides: Mapping[str, KnownSlide], chosen: Sequence[str] | str
) -> Iterator[Problem]:
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


def _make_pair(known: KnownSlide, marker: Channel) -> Pair:
    slide = known.slide
    (background,) = slide.backgrounds_of(marker)
    move = None if marker.cycle == background.cycle else (marker.cycle, background.cycle)
    return Pair(
        slide.name + CANDIDATES_SUFFIX,
        marker.name,
        pre=slide.images[background.image],
        post=slide.images[marker.image],
        channel={"post": marker.number, "pre": background.number},
        rule=f"marker {marker.name} of the slide {slide.name}, background {background.name}",
        slide=slide.name,
        move=None if move is None else "{}-{}".format(*move),
    )


def find_slides(discovery: Discovery, settings: Settings, cache: HeaderCache) -> FoundSlides:
    """Read headers and tables of slides; what is wrong with one is a problem."""
    slides, unusable = read_slides(discovery.slides, settings, cache)
    found = marker_pairs(slides, settings, discovery)
    return replace(found, problems=[*unusable, *found.problems])


SLIDES = SlideRules(find_slides, resources.demand_of, resources.disk_mb, resources.work_mpx)
"""What `Batch.load` reads slides with."""
