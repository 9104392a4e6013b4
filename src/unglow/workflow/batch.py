"""The parts of a run, known before anything runs: settings, pairs, headers, problems.

The Snakefile builds one `Batch` while it is parsed. Only headers are read, so that a dry run in a
fresh directory prints real numbers. What jobs are given and ask for is in `job_params` and
`job_resources`.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unglow.core.errors import ConfigError, InputError
from unglow.core.files import resolve_links
from unglow.core.progress import track_progress
from unglow.images.channels import plan_layouts
from unglow.images.pair_plan import ROLES
from unglow.photometry.gain.scale import METHODS
from unglow.results.slide_files import SUBTRACTION
from unglow.review.regions import read_regions
from unglow.telemetry.reading.pairs import reasons_of
from unglow.transform.landmarks import read_landmarks
from unglow.transform.matrix import read_initial
from unglow.workflow import config as configuration
from unglow.workflow.config import SECTIONS, override, variants
from unglow.workflow.header_cache import CACHE, HeaderCache, channel_of, headers_of, pixel_size_note
from unglow.workflow.samples.discovery import discover
from unglow.workflow.samples.naming import placeholder_in
from unglow.workflow.samples.pair import (
    Discovery,
    Pair,
    Problem,
    choose_keys,
    describe_repeated,
    map_sources,
)
from unglow.workflow.samples.sheet import read_sheet
from unglow.workflow.stage_table import Outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, NoReturn

    from unglow.images.slide_plan import KnownSlide
    from unglow.images.tiff import TiffHeader
    from unglow.images.zarr import StoreLayout
    from unglow.memory import Demand
    from unglow.photometry.gain.scale import ScaleSettings
    from unglow.workflow.config import Variant
    from unglow.workflow.settings import Settings

    Wildcards = Mapping[str, str]

SHEET = Path("config") / "samples.tsv"
# The most problems that are listed where there is no pair at all.
_LISTED = 20


@dataclass(frozen=True, slots=True)
class FoundSlides:
    """Slides that can be used, and pairs of their markers with headers, post and pre; problems."""

    slides: dict[str, KnownSlide] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    headers: dict[tuple[str, str], tuple[TiffHeader, TiffHeader]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


class SlideRules(NamedTuple):
    """What a run asks of slides: `unglow.slides.rules.SLIDES`, or `NO_SLIDES`, which skips them.

    Commands and rules choose one of the two, so that nothing else imports the wing of slides. Each
    function of a job is given its slide and rule.
    """

    find: Callable[[Discovery, Settings, HeaderCache], FoundSlides]
    demand_of: Callable[[KnownSlide, Settings, str, float], Demand]
    disk_mb: Callable[[KnownSlide, Settings, str], int]
    work_mpx: Callable[[KnownSlide, str], float]


def _skip_slides(discovery: Discovery, *_: object) -> FoundSlides:
    sentence = "is a slide of many channels, which unglow cannot read without unglow.slides."
    problems = [
        Problem(f"{one.name} {sentence}", "slide", one.name, None, one.images)
        for one in discovery.slides
    ]
    return FoundSlides(problems=problems)


def _refuse_job(*_: object) -> NoReturn:
    raise NotImplementedError


NO_SLIDES = SlideRules(_skip_slides, _refuse_job, _refuse_job, _refuse_job)


def find_refused(results: Path, names: Iterable[str]) -> frozenset[str]:
    """Return those of some slides whose subtraction was refused the last time."""
    return frozenset(n for n in names if reasons_of(results / n / SUBTRACTION) is not None)


@dataclass(frozen=True)
class Batch:
    """All pairs of a run that can be processed, and a sentence for each one that cannot."""

    settings: Settings
    pairs: dict[tuple[str, str], Pair]
    problems: tuple[Problem, ...]
    headers: dict[tuple[str, str], tuple[TiffHeader, TiffHeader]] = field(repr=False)
    source: Path
    notes: tuple[str, ...] = ()
    """A sentence for what is left aside of the files that help pairs."""
    maps_from: dict[tuple[str, str], str] = field(default_factory=dict)
    """The dye whose map a pair takes, for pairs that do not register themselves."""
    slides: dict[str, KnownSlide] = field(default_factory=dict)
    """Multiplexed slides, by name."""
    refused: frozenset[str] = frozenset()
    """Slides whose subtraction was refused the last time: they have no corrected image."""
    _layouts: dict[tuple[str, ...], dict[str, StoreLayout]] = field(default_factory=dict)
    slide_rules: SlideRules = NO_SLIDES
    chosen: frozenset[tuple[str, str]] | None = None
    """Keys that the config key `only` names; None for all."""
    first_same: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)
    """Of what `scale_methods` has compared: for each variant the first with the same result."""
    _settings: dict[tuple[str | None, ...], Settings] = field(default_factory=dict)

    @classmethod
    def load(
        cls,
        config: Mapping[str, Any],
        directory: Path | None = None,
        slide_rules: SlideRules = NO_SLIDES,
        *,
        is_watched: bool = False,
    ) -> Batch:
        """Read the configuration, find the pairs and look at every header.

        Relative paths start from ``directory``; from the current one if it is None. Slides are
        skipped without `unglow.slides.rules.SLIDES`, the ``slide_rules`` that read them. With
        ``is_watched``, say on standard error how far that is if it takes some seconds.

        Raises
        ------
        ConfigError, InputError
            Nothing can run at all: a wrong key, a missing raw directory, an unreadable sheet.
        """
        base = directory or Path()
        settings = configuration.load(config)
        _check_results(base / settings.results)
        _refuse_placeholder("results", settings)
        source, discovery = find_pairs(settings, base)
        _check_apart(base / settings.results, source, discovery)
        cache = HeaderCache(base / CACHE)
        pairs: dict[tuple[str, str], Pair] = {}
        headers: dict[tuple[str, str], tuple[TiffHeader, TiffHeader]] = {}
        problems = list(discovery.problems)
        notes = _idle_keys(settings)
        scales = _scales(settings)
        channels = [override(settings, v.overrides) for v in variants(settings, "ingestion")]
        of_slides = slide_rules.find(discovery, settings, cache)
        slides, found = of_slides.slides, (*discovery.pairs, *of_slides.pairs)
        for pair in track_progress(found, "pairs read") if is_watched else found:
            _check_overridden(pair, settings)
            try:
                for one in channels:  # each has to be storable
                    headers[pair.key] = of_slides.headers.get(pair.key) or headers_of(
                        pair, one, cache
                    )
                _check_manual(pair, scales)
                _check_exposure(pair, scales)
                notes += check_help(pair, headers[pair.key])
                pairs[pair.key] = pair
            except InputError as error:
                paths = pair.pre, pair.post
                problems.append(Problem(str(error), "header", pair.sample, pair.dye, paths))
        problems += of_slides.problems
        notes += _large_pixels([*chain(*headers.values(), *(s.headers for s in slides.values()))])
        notes += describe_repeated(pairs.values())
        if slides and settings.sweep:
            notes.append("config key 'sweep' is of pairs: slides have no variants.")
        cache.save()
        shapes = {key: tuple(header.shape for header in headers[key]) for key in pairs}
        maps_from, unusable = map_sources(pairs, shapes, settings.register.from_)
        for problem in unusable:
            pairs.pop((str(problem.sample), str(problem.dye)))
        problems += unusable
        every, chosen = {*pairs, *((name, "") for name in slides)}, None
        if settings.only is not None:
            chosen, problems = choose_keys(settings.only, every, problems)
        if not (every if chosen is None else chosen):
            raise InputError(*_nothing_to_do(source, problems))
        refused = find_refused(base / settings.results, slides)
        facts = tuple(problems), headers, source, tuple(notes), maps_from, slides, refused
        return cls(settings, pairs, *facts, chosen=chosen, slide_rules=slide_rules)

    @classmethod
    def without_images(cls, config: Mapping[str, Any]) -> Batch:
        """Return a batch of no pairs: what is needed to list or check the rules."""
        settings = configuration.load(config)
        return cls(settings, {}, (), {}, Path(settings.raw))

    @cached_property
    def outputs(self) -> Outputs:
        """The path patterns of this run."""
        swept = (level for level, made in self.variants.items() if next(iter(made)))
        return Outputs(tuple(swept), self.settings.figures == "all")

    @cached_property
    def variants(self) -> dict[str, dict[str, Variant]]:
        """The variants on each level of `SECTIONS`, by name, in the order of their values."""
        return {level: {v.name: v for v in variants(self.settings, level)} for level in SECTIONS}

    @cached_property
    def variant_count(self) -> int:
        """How many variants each pair has: 1 without a sweep."""
        return math.prod(len(made) for made in self.variants.values())

    @cached_property
    def planned(self) -> dict[tuple[str, str], list[Any]]:
        """Jobs by key, once `planned_jobs.jobs_of` has listed them."""
        return {}

    @cached_property
    def keys(self) -> list[tuple[str, str]]:
        """Sample and dye of each pair of the run, name and '' of each slide."""
        return [key for key in self._all_keys if self.chosen is None or key in self.chosen]

    @cached_property
    def others(self) -> list[tuple[str, str]]:
        """Pairs and slides that `only` leaves aside: what there is of them stays as it is."""
        return [key for key in self._all_keys if self.chosen is not None and key not in self.chosen]

    @property
    def _all_keys(self) -> list[tuple[str, str]]:
        return [*self.pairs, *((name, "") for name in self.slides)]

    @cached_property
    def controls(self) -> list[tuple[str, str]]:
        """Sample and dye of each unstained control."""
        return [key for key, pair in self.pairs.items() if pair.control]

    def pair(self, wildcards: Wildcards) -> Pair:
        """Return the pair that a job's wildcards name."""
        return self.pairs[wildcards["sample"], wildcards["dye"]]

    def header(self, wildcards: Wildcards) -> TiffHeader:
        """Return the header of the image that a job's wildcards name, ``role`` included."""
        headers = self.headers[wildcards["sample"], wildcards["dye"]]
        return headers[ROLES.index(wildcards["role"])]

    def pixels(self, wildcards: Wildcards) -> int:
        """Return the number of pixels of the larger image of a pair."""
        headers = self.headers[wildcards["sample"], wildcards["dye"]]
        return max(h.shape[0] * h.shape[1] for h in headers)

    def layout(self, wildcards: Wildcards, role: str) -> StoreLayout:
        """Return the layout of a pair's store: ``post``, ``pre`` or ``derived`` (float32)."""
        pair = self.pair(wildcards)
        key = *pair.key, wildcards.get("ingestion", "")
        if key not in self._layouts:  # each rule of a pair asks several times
            channel = channel_of(pair, self.variant_settings(wildcards))
            self._layouts[key] = plan_layouts(*self.headers[pair.key], channel)
        return self._layouts[key][role]

    def variant_settings(self, wildcards: Wildcards) -> Settings:
        """Return the configuration of the variant that a job's wildcards name, not to be changed.

        Of a level that they do not name, it is that of the first variant.
        """
        if not self.settings.sweep:
            return self.settings
        key = tuple(wildcards.get(level) for level in SECTIONS)
        if key not in self._settings:
            overrides: dict[str, Any] = {}
            for level, name in zip(SECTIONS, key, strict=True):
                made = self.variants[level]
                overrides |= made[name or next(iter(made))].overrides
            self._settings[key] = override(self.settings, overrides)
        return self._settings[key]


def check_help(pair: Pair, headers: tuple[TiffHeader, TiffHeader]) -> tuple[str, ...]:
    """Check the landmarks, the initial transform and the regions of a pair.

    Returns
    -------
    A sentence for what is left aside of them.

    Raises
    ------
    InputError
        One of the files cannot be used.
    """
    if pair.landmarks:
        read_landmarks(pair.landmarks, *headers)
    if pair.initial_transform is not None:
        read_initial(pair.initial_transform, *headers)
    return () if pair.regions is None else read_regions(pair.regions, headers[0].shape).notes


def find_pairs(settings: Settings, base: Path) -> tuple[Path, Discovery]:
    """Return the sample sheet or raw directory of a run below ``base``, and what is found there.

    Raises `ConfigError` or `InputError` where nothing can be found.
    """
    sheet = settings.samples
    if sheet is not None:
        return base / sheet, read_sheet(base / sheet, base=base)
    if os.path.exists(base / SHEET):
        return base / SHEET, read_sheet(base / SHEET, base=base)
    _refuse_placeholder("raw", settings)
    mapped = bool(settings.multiplexed.backgrounds)
    return base / settings.raw, discover(base / settings.raw, mapped=mapped)


def _nothing_to_do(source: Path, problems: list[Problem]) -> list[str]:
    """Say why there is no pair at all, a line for each reason."""
    sentences = [problem.message for problem in problems[:_LISTED]]
    if len(problems) > _LISTED:
        more = len(problems) - _LISTED
        sentences.append(f"... and {more} more; 'unglow survey' lists them all.")
    return [f"no pair can be processed ({source}).", *sentences]


def _refuse_placeholder(key: str, settings: Settings) -> None:
    """Refuse a directory whose name Snakemake would not take as it is."""
    name = getattr(settings, key)
    placeholder = placeholder_in(name)
    if placeholder is not None:
        raise ConfigError(
            f"config key '{key}' is '{name}', but Snakemake would replace {placeholder} "
            "by something else: rename the directory, or name a link to it that is called "
            "otherwise."
        )


def _check_results(results: Path) -> None:
    """Refuse a results directory that a file is in the way of."""
    for path in (results, *results.parents):
        if os.path.lexists(path) and not os.path.isdir(path):
            what = "a file" if os.path.exists(path) else "a link that leads nowhere"
            raise ConfigError(
                f"{path} is {what}, so no results can be written to {results}: move it away "
                "or set another directory with --config results=DIRECTORY."
            )


def _check_apart(results: Path, source: Path, discovery: Discovery) -> None:
    """Refuse a results directory that holds raw images, or is among them."""
    images = chain(
        *((pair.post, pair.pre) for pair in discovery.pairs),
        *(slide.images for slide in discovery.slides),
    )
    place = resolve_links(results)
    folders = {resolve_links(folder) for folder in {path.parent for path in images}}
    if os.path.isdir(source):
        folders.add(resolve_links(source))
    shared = [folder for folder in folders if folder.is_relative_to(place)]
    if shared or (os.path.isdir(source) and place.is_relative_to(resolve_links(source))):
        raise ConfigError(
            f"config key 'results' is '{results}', which shares a directory with raw images "
            f"({min(shared, default=source)}): set a directory that holds results alone."
        )


def _large_pixels(headers: list[TiffHeader]) -> list[str]:
    """Return a sentence if images have a pixel size that cannot be right."""
    large = list({h.path: h for h in headers if pixel_size_note(h)}.values())
    more = f" and {len(large) - 1} more" if len(large) > 1 else ""
    return [f"{header.path}{more}: {pixel_size_note(header)}" for header in large[:1]]


def _scales(settings: Settings) -> list[ScaleSettings]:
    """Return the section ``scale`` of every variant; what is swept together has to fit."""
    scales = []
    for variant in variants(settings, "subtraction"):
        scale = override(settings, variant.overrides).scale
        if scale.default not in (*scale.methods, "manual", "control", None):
            raise ConfigError(
                f"config key 'sweep' combines scale.default '{scale.default}' with "
                f"scale.methods {', '.join(scale.methods)}, which do not hold it; add it to "
                "each list or leave that default out."
            )
        scales.append(scale)
    return scales


def _idle_keys(settings: Settings) -> list[str]:
    """Return a sentence for each swept key that only a method follows from that is never on."""
    sweep = settings.sweep
    lists = [settings.scale.methods, *sweep.get("scale.methods", ())]
    used = {"manual", *(key for methods in lists for m in methods for key in METHODS[m].settings)}
    keys = dict.fromkeys(key for method in METHODS.values() for key in method.settings)
    return [
        f"config key 'sweep.scale.{key}' changes nothing: no method of scale.methods follows from "
        "it, so its variants are all the same."
        for key in keys
        if f"scale.{key}" in sweep and key not in used
    ]


def _check_overridden(pair: Pair, settings: Settings) -> None:
    """Raise if the sheet gives a pair a value of its own for what is swept."""
    own = {"channel": pair.channel, "scale.manual": pair.manual_scale}
    columns = {"channel": "channel", "scale.manual": "manual_scale"}
    for name, value in own.items():
        if name in settings.sweep and value is not None and pair.slide is not None:
            raise ConfigError(
                f"config key 'sweep.{name}' would change nothing for markers of slides "
                "(multiplexed.candidates): leave one of them out."
            )
        if name in settings.sweep and value is not None:
            raise ConfigError(
                f"config key 'sweep.{name}' would change nothing for {pair.sample} {pair.dye}, "
                f"whose {columns[name]} in the sample sheet is {value}: leave one of them out."
            )


def _check_manual(pair: Pair, scales: list[ScaleSettings]) -> None:
    """Raise if some variant wants the manual gain and neither sheet nor configuration has one."""
    for scale in scales:
        for key, wanted in (("methods", scale.methods), ("default", [scale.default])):
            if "manual" in wanted and scale.manual is None and pair.manual_scale is None:
                raise ConfigError(
                    f"config key 'scale.{key}' holds manual but no gain is given: set "
                    f"'scale.manual', or manual_scale for {pair.sample} {pair.dye} in the sample "
                    "sheet."
                )


def _check_exposure(pair: Pair, scales: list[ScaleSettings]) -> None:
    """Raise if some variant has no gain for a pair but that of exposure times."""
    for scale in scales:
        left = {*scale.methods} - {"exposure"}
        if scale.default == "exposure" or not (left or pair.manual_scale or scale.manual):
            raise InputError(
                f"{pair.sample} {pair.dye} is a pair, of which no exposure times are "
                f"{'known' if pair.slide is None else 'taken'}: add another method to "
                "scale.methods, and to scale.default if that is set."
            )
