"""What a run consists of, known before anything runs: settings, pairs, headers, problems, demands.

The Snakefile builds one `Batch` while it is parsed; every resource function asks it. Only headers
are read, so that a dry run in a fresh directory prints real numbers.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import ConfigError, InputError
from unglow.io.zarr.bands import all_bands, band_count, readable_bands
from unglow.reporting.summary import Entry
from unglow.transform.initial_matrix import read_initial
from unglow.transform.landmarks import read_landmarks
from unglow.workflow import config as configuration
from unglow.workflow.header_cache import (
    CACHE,
    HeaderCache,
    channel_of,
    headers_of,
    layouts,
    shapes_of,
)
from unglow.workflow.memory_per_job import demand_of
from unglow.workflow.paths import FORMS, Outputs
from unglow.workflow.samples import ROLES, Pair, Problem, discover, map_sources, read_sheet
from unglow.workflow.samples.naming import place_to_fill_in
from unglow.workflow.variants import (
    REGISTRATION,
    SUBTRACTION,
    settings_of,
    variants,
    with_overrides,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from unglow.core.demand import AnyDemand
    from unglow.io.tiff import TiffHeader
    from unglow.io.zarr import StoreLayout
    from unglow.workflow.schema import Settings

DEFAULT_SHEET = Path("config") / "samples.tsv"


@dataclass(frozen=True)
class Batch:
    """All pairs of a run that can be processed, and a sentence for each one that cannot."""

    settings: Settings
    pairs: dict[tuple[str, str], Pair]
    problems: tuple[Problem, ...]
    headers: dict[tuple[str, str], tuple[TiffHeader, TiffHeader]] = field(repr=False)
    source: Path
    maps_from: dict[tuple[str, str], str] = field(default_factory=dict)
    """The dye whose map a pair takes, for pairs that do not register themselves."""
    _layouts: dict[tuple[str, str], dict[str, StoreLayout]] = field(default_factory=dict)

    @classmethod
    def load(cls, config: Mapping[str, Any], directory: Path | None = None) -> Batch:
        """Read the configuration, find the pairs and look at every header.

        Parameters
        ----------
        config
            The user's configuration, as Snakemake holds it.
        directory
            Working directory that relative paths start from; the current one if None.

        Raises
        ------
        ConfigError, InputError
            Nothing can run at all: a wrong key, a missing raw directory, an unreadable sheet.
        """
        base = directory or Path()
        settings = configuration.load(config)
        _check_results(base / settings["results"])
        _refuse_place("results", settings)
        source, found = _find(settings, base)
        cache = HeaderCache(base / CACHE)
        pairs: dict[tuple[str, str], Pair] = {}
        headers: dict[tuple[str, str], tuple[TiffHeader, TiffHeader]] = {}
        problems = list(found.problems)
        scales = _scales(settings)
        for pair in found.pairs:
            try:
                headers[pair.key] = headers_of(pair, settings, cache)
                _check_manual(pair, scales)
                check_help(pair, headers[pair.key])
                pairs[pair.key] = pair
            except InputError as error:
                paths = pair.pre, pair.post
                problems.append(Problem(str(error), "header", pair.sample, pair.dye, paths))
        cache.save()
        maps_from, unusable = map_sources(pairs, shapes_of(headers), settings["register"]["from"])
        for problem in unusable:
            pairs.pop((str(problem.sample), str(problem.dye)))
        problems += unusable
        if not pairs:
            raise InputError(_nothing_to_do(source, problems))
        return cls(settings, pairs, tuple(problems), headers, source, maps_from)

    @cached_property
    def outputs(self) -> Outputs:
        """The path patterns of this run."""
        return Outputs.of(self.settings)

    def pair(self, wildcards: Mapping[str, str]) -> Pair:
        """Return the pair that a job's wildcards name."""
        return self.pairs[wildcards["sample"], wildcards["dye"]]

    def variant_settings(self, wildcards: Mapping[str, str]) -> Settings:
        """Return the configuration of the variant that a job's wildcards name."""
        if not self.settings["sweep"]:
            return self.settings
        first = [variants(self.settings, s)[0].name for s in (REGISTRATION, SUBTRACTION)]
        return settings_of(
            self.settings,
            wildcards.get("registration", first[0]),
            wildcards.get("subtraction", first[1]),
        )

    def channel(self, pair: Pair) -> str:
        """Return the channel setting of a pair: its own, or the run's."""
        return channel_of(pair, self.settings)

    def manual_gain(self, pair: Pair, settings: Settings) -> float | None:
        """Return the manual gain of a pair: its own, or the configuration's, or None."""
        own = pair.manual_scale
        gain = own if own is not None else settings["scale"]["manual"]
        return None if gain is None else float(gain)

    def methods(self, wildcards: Mapping[str, str]) -> tuple[str, ...]:
        """Return the scale methods of a pair; a given manual gain switches ``manual`` on."""
        settings = self.variant_settings(wildcards)
        chosen = list(settings["scale"]["methods"])
        if "manual" not in chosen and self.manual_gain(self.pair(wildcards), settings) is not None:
            chosen.append("manual")
        return tuple(chosen)

    def main_method(self, wildcards: Mapping[str, str]) -> str:
        """Return the method that stands for a pair, and whose difference is written."""
        default = self.variant_settings(wildcards)["scale"]["default"]
        return str(default or self.methods(wildcards)[0])

    def written(self, wildcards: Mapping[str, str]) -> tuple[str, ...]:
        """Return the methods whose differences are written at full size, the main one first."""
        main = self.main_method(wildcards)
        more = self.variant_settings(wildcards)["scale"]["write"] or ()
        others = (m for m in self.methods(wildcards) if m != main)
        return (main, *(m for m in others if more == "all" or m in more))

    def counted(self, wildcards: Mapping[str, str]) -> tuple[str, ...]:
        """Return the methods that the job of a difference counts beside the one it writes.

        That of the main method counts all others, so that one file tells of all of them.
        """
        main = self.main_method(wildcards)
        methods = self.methods(wildcards) if wildcards["method"] == main else ()
        return tuple(m for m in methods if m != main)

    def histograms(self, wildcards: Mapping[str, str]) -> dict[str, str]:
        """Return, for each method, the path pattern of the file that holds its histogram."""
        pattern = self.outputs.subtracted("difference/{method}.histogram.npz")
        file = pattern.replace("{method}", self.main_method(wildcards))
        return dict.fromkeys(self.methods(wildcards), file)

    def exported(self) -> tuple[tuple[str, str], ...]:
        """Return (image, form) of everything that is exported, as `Outputs.export` takes them."""
        chosen = self.settings["exports"]
        return tuple((image, form) for key, form in FORMS.items() for image in chosen[key])

    @property
    def wants_snr(self) -> bool:
        """Whether the signal-to-noise ratio is wanted, in whatever form: a store is written."""
        return any("snr" in images for images in self.settings["exports"].values())

    def snr_settings(self) -> Settings:
        """Return those of the section ``detect`` that the signal-to-noise ratio depends on."""
        return {name: self.settings["detect"][name] for name in ("fwhm_px", "max_error_px")}

    def register_settings(self, wildcards: Mapping[str, str]) -> Settings:
        """Return the section ``register`` of a job, ``from`` only where another's map is taken."""
        settings: Settings = dict(self.variant_settings(wildcards)["register"])
        del settings["from"]
        dye = self.maps_from.get(self.pair(wildcards).key)
        return settings if dye is None else {**settings, "from": dye}

    def register_inputs(self, wildcards: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the files besides the images that a registration reads; none for most pairs."""
        pair = self.pair(wildcards)
        files = {"landmarks": [str(path) for path in pair.landmarks]}
        if pair.initial_transform is not None:
            files["initial"] = [str(pair.initial_transform)]
        if pair.key in self.maps_from:
            names = {
                "sample": pair.sample,
                "dye": self.maps_from[pair.key],
                "registration": wildcards.get("registration", ""),
            }
            files["source"] = [
                self.outputs.registered(name).format(**names)
                for name in ("transform.json", "displacement.npz")
            ]
        return {name: paths for name, paths in files.items() if paths}

    def controls(self, wildcards: Mapping[str, str]) -> tuple[str, ...]:
        """Return the samples that are unstained controls of a pair's dye; of a control, none."""
        pair = self.pair(wildcards)
        return () if pair.control else tuple(s for s, dye in self._controls if dye == pair.dye)

    @cached_property
    def _controls(self) -> list[tuple[str, str]]:
        """Sample and dye of each unstained control."""
        return [key for key, pair in self.pairs.items() if pair.control]

    @property
    def idle_controls(self) -> list[str]:
        """A sentence for each unstained control whose dye no other pair has."""
        stained = {dye for (_, dye), pair in self.pairs.items() if not pair.control}
        return [
            f"{sample} {dye} is an unstained control, but there is no other pair of its dye."
            for sample, dye in self._controls
            if dye not in stained
        ]

    def control_search_counts(self, wildcards: Mapping[str, str]) -> list[str]:
        """Return search.npz of each control of a pair's dye, those of the same variant."""
        pattern = self.outputs.subtracted("search.npz")
        return [
            pattern.format(**{**wildcards, "sample": sample}) for sample in self.controls(wildcards)
        ]

    def detect_settings(self, wildcards: Mapping[str, str]) -> Settings:
        """Return the section ``detect`` of a job, keys sorted: their order is no change.

        Without controls there is nothing to choose the threshold by but the negative side.
        """
        settings = dict(sorted(self.settings["detect"].items()))
        return settings if self.controls(wildcards) else {**settings, "threshold_from": "negative"}

    def layout(self, sample: str, dye: str, role: str) -> StoreLayout:
        """Return the layout of a pair's store: ``post``, ``pre`` or ``derived`` (float32)."""
        key = sample, dye
        if key not in self._layouts:  # each rule of a pair asks several times
            self._layouts[key] = layouts(*self.headers[key], self.channel(self.pairs[key]))
        return self._layouts[key][role]

    def band_count(self, stage: str, wildcards: Mapping[str, str]) -> int:
        """Return how many bands a stage of a pair is made in; 1 if it is not split.

        Parameters
        ----------
        stage
            ``ingest`` (with the wildcard ``role``), ``align``, ``difference`` or ``detect``.
        wildcards
            Of the job.
        """
        key = wildcards["sample"], wildcards["dye"]
        role = wildcards["role"] if stage == "ingest" else "derived"
        layout = self.layout(*key, role)
        count = band_count(self.settings["bands"], self.pixels(wildcards), layout)
        return count if stage != "ingest" else readable_bands(count, self.header(wildcards))

    def is_split(self, wildcards: Mapping[str, str]) -> bool:
        """Return whether any stage of the pair is made in bands."""
        images = ({**wildcards, "role": role} for role in ROLES)
        stages = (self.band_count("ingest", names) for names in images)
        return self.band_count("align", wildcards) > 1 or any(count > 1 for count in stages)

    def band_files(self, stage: str, pattern: str, wildcards: Mapping[str, str]) -> list[str]:
        """Return what the jobs of all bands of a stage leave; nothing where it is not split.

        ``pattern`` is that of the first output of the stage.
        """
        count = self.band_count(stage, wildcards)
        path = self.outputs.band(pattern)
        bands = all_bands(count) if count > 1 else ()
        return [path.format(**{**wildcards, "band": str(band)}) for band in bands]

    def header(self, wildcards: Mapping[str, str]) -> TiffHeader:
        """Return the header of the image that the wildcards name, ``role`` included."""
        headers = self.headers[wildcards["sample"], wildcards["dye"]]
        return headers[ROLES.index(wildcards["role"])]

    def demand(self, stage: str, wildcards: Mapping[str, str]) -> AnyDemand:
        """Return the memory demand of a stage for the pair that the wildcards name."""
        return demand_of(self, stage, wildcards)

    def mem_mb(self, stage: str, wildcards: Mapping[str, str], threads: int) -> int:
        """Return the predicted peak of a job, MB, within the budget."""
        return self.demand(stage, wildcards).peak_mb(self.settings["memory_per_job"], threads)

    def entries(self, logs: str) -> list[Entry]:
        """Return what the summary has to tell about: each pair in each variant.

        Parameters
        ----------
        logs
            Directory of the logs, for the sentence about a job that did not finish.
        """
        made = []
        for (sample, dye), r, s in itertools.product(
            self.pairs,
            variants(self.settings, REGISTRATION),
            variants(self.settings, SUBTRACTION),
        ):
            names = {"sample": sample, "dye": dye, "registration": r.name, "subtraction": s.name}

            def at(pattern: str, names: Mapping[str, str] = names) -> str:
                return pattern.removeprefix("<results>/").format(**names)

            made.append(
                Entry(
                    **names,
                    plan=at(self.outputs.pair("plan.json")),
                    transform=at(self.outputs.registered("transform.json")),
                    scale=at(self.outputs.subtracted("scale.json")),
                    detection=at(self.outputs.subtracted("detection.json")),
                    histograms={m: at(path) for m, path in self.histograms(names).items()},
                    logs=f"{logs}/{sample}/{dye}",
                    control=self.pairs[sample, dye].control,
                )
            )
        return made

    def pixels(self, wildcards: Mapping[str, str]) -> int:
        """Return the number of pixels of the larger image of a pair."""
        headers = self.headers[wildcards["sample"], wildcards["dye"]]
        return max(h.shape[0] * h.shape[1] for h in headers)


def check_help(pair: Pair, headers: tuple[TiffHeader, TiffHeader]) -> None:
    """Raise `InputError` if the landmarks or the initial transform of a pair cannot be used."""
    if pair.landmarks:
        read_landmarks(pair.landmarks, *headers)
    if pair.initial_transform is not None:
        read_initial(pair.initial_transform, *headers)


def _find(settings: Settings, base: Path) -> tuple[Path, Any]:
    sheet = settings["samples"]
    if sheet is not None:
        return base / sheet, read_sheet(base / sheet, base=base)
    if (base / DEFAULT_SHEET).exists():
        return base / DEFAULT_SHEET, read_sheet(base / DEFAULT_SHEET, base=base)
    _refuse_place("raw", settings)
    return base / settings["raw"], discover(base / settings["raw"])


def _nothing_to_do(source: Path, problems: list[Problem]) -> str:
    """Say why there is no pair at all, in as many sentences as there are problems (or 20)."""
    told = [problem.message for problem in problems[:20]]
    if len(problems) > len(told):
        told.append(f"... and {len(problems) - len(told)} more; 'unglow survey' lists them all.")
    return "\n".join([f"no pair can be processed ({source}).", *told])


def _refuse_place(key: str, settings: Settings) -> None:
    """Refuse a directory whose name Snakemake would not take as it is."""
    place = place_to_fill_in(settings[key])
    if place is not None:
        raise ConfigError(
            f"config key '{key}' is '{settings[key]}', but Snakemake would replace {place} by "
            "something else: rename the directory, or name a link to it that is called otherwise."
        )


def _check_results(results: Path) -> None:
    """Refuse a results directory that a file is in the way of."""
    for place in (results, *results.parents):
        if place.exists() and not place.is_dir():
            raise ConfigError(
                f"{place} is a file, so no results can be written to {results}: move the file away "
                "or set another directory with --config results=DIRECTORY."
            )


def _scales(settings: Settings) -> list[Settings]:
    """Return the section ``scale`` of every variant; what is swept together has to fit."""
    scales = []
    for variant in variants(settings, SUBTRACTION):
        scale = with_overrides(settings, variant.overrides)["scale"]
        if scale["default"] not in (*scale["methods"], "manual", None):
            raise ConfigError(
                f"config key 'sweep' combines scale.default '{scale['default']}' with "
                f"scale.methods {', '.join(scale['methods'])}, which do not hold it; add it to "
                "each list or leave that default out."
            )
        scales.append(scale)
    return scales


def _check_manual(pair: Pair, scales: list[Settings]) -> None:
    """Raise if some variant wants the manual gain and neither sheet nor configuration has one."""
    for scale in scales:
        for key, wanted in (("methods", scale["methods"]), ("default", [scale["default"]])):
            if "manual" in wanted and scale["manual"] is None and pair.manual_scale is None:
                raise ConfigError(
                    f"config key 'scale.{key}' holds manual but no gain is given: set "
                    f"'scale.manual', or manual_scale for {pair.sample} {pair.dye} in the sample "
                    "sheet."
                )
