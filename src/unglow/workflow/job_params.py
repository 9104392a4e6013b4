"""Params and special inputs of jobs, from the settings, sheet and headers of their pair."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.levels import RESULT_OF
from unglow.core.records import to_plain
from unglow.images.raw_header import find_key_file
from unglow.photometry.difference import name_store
from unglow.photometry.difference_histogram import HISTOGRAM
from unglow.results.marker_rows import SlideEntry
from unglow.results.slide import SLIDE_FILES
from unglow.results.summary import Entry
from unglow.review import REVIEW
from unglow.transform.transform import FIELD_FILE
from unglow.workflow.header_cache import channel_of
from unglow.workflow.planned_jobs import (
    control_samples,
    jobs_of,
    main_method,
    manual_gain,
    method_of,
    same_difference_as,
    same_ratio_as,
    scale_methods,
    variants_of,
    written_methods,
)
from unglow.workflow.stage_table import STAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.images.channels import ChannelSetting
    from unglow.workflow.batch import Batch
    from unglow.workflow.settings import Settings

    Wildcards = Mapping[str, str]


# -------------------------------------------------------------------------------- ingest, register


def raw_image(batch: Batch, wildcards: Wildcards, *, role: str) -> str:
    """Return the path of a raw image, ``post`` or ``pre``, or of the file that stands for it."""
    return str(find_key_file(getattr(batch.pair(wildcards), role)))


def channel_setting(batch: Batch, wildcards: Wildcards) -> ChannelSetting:
    """Return the channel setting of a pair: its own, or the run's."""
    return channel_of(batch.pair(wildcards), batch.variant_settings(wildcards))


def header_record(batch: Batch, wildcards: Wildcards, *, role: str) -> dict[str, Any]:
    """Return the header of an image of a pair, without its path."""
    record = to_plain(batch.header({**wildcards, "role": role}))
    return {key: value for key, value in record.items() if key != "path"}


def register_settings(batch: Batch, wildcards: Wildcards) -> dict[str, Any]:
    """Return the section ``register`` of a job, and the dye whose map it takes over, if any."""
    settings = _read_register(batch.variant_settings(wildcards))
    pair = batch.pair(wildcards)
    if pair.slide is not None:
        return {**settings, "cycles": pair.move or ""}
    dye = batch.maps_from.get(pair.key)
    return settings if dye is None else {**settings, "from": dye}


def _read_register(settings: Settings) -> dict[str, Any]:
    return _read_section(settings, "register", "from", "on")


def _read_section(settings: Settings, section: str, *but: str) -> dict[str, Any]:
    """Return keys and values of a section, always in one order: another one would rerun jobs."""
    values = to_plain(getattr(settings, section))
    return {key: value for key, value in values.items() if key not in but}


def register_inputs(batch: Batch, wildcards: Wildcards) -> dict[str, list[str]]:
    """Return the files besides the images that a registration reads; none for most pairs."""
    pair = batch.pair(wildcards)
    files = {"landmarks": [str(path) for path in pair.landmarks]}
    if pair.initial_transform is not None:
        files["initial"] = [str(pair.initial_transform)]
    if pair.key in batch.maps_from:
        names = {**wildcards, "dye": batch.maps_from[pair.key]}
        files["source"] = [
            batch.outputs.file("registered", name).format(**names)
            for name in ("transform.json", FIELD_FILE)
        ]
    if pair.move is not None:
        files["source"] = [
            batch.outputs.file("move", name).format(sample=pair.slide, cycle=pair.move)
            for name in ("transform.json", FIELD_FILE)
        ]
    return {name: paths for name, paths in files.items() if paths}


# ----------------------------------------------------------------------------------- scale, detect


def scale_settings(batch: Batch, wildcards: Wildcards) -> dict[str, Any]:
    """Return the section ``scale`` of a job, with the methods and the gain of its pair."""
    settings = batch.variant_settings(wildcards)
    methods = list(scale_methods(batch, wildcards))
    return {
        **_read_section(settings, "scale", "write"),
        "methods": methods,
        "manual": manual_gain(batch.pair(wildcards), settings),
        **(
            {"default": main_method(batch, wildcards)}
            if settings.scale.default == "control"
            else {}
        ),
        # only where it was chosen, so that nothing of earlier runs is outdated
        **({} if settings.light == "auto" else {"light": settings.light}),
    }


def control_scales(batch: Batch, wildcards: Wildcards) -> list[str]:
    """Return the gains of controls of a pair's dye, where its gain is to come from them."""
    pattern = batch.outputs.file("subtracted", "scale.json")
    samples = control_samples(batch, wildcards)
    wanted = "control" in scale_methods(batch, wildcards)
    return [pattern.format(**{**wildcards, "sample": sample}) for sample in samples if wanted]


def detect_settings(batch: Batch, wildcards: Wildcards) -> dict[str, Any]:
    """Return the section ``detect`` of a job, keys sorted: their order is no change.

    Without controls there is nothing to choose the threshold by but the negative side. In markers
    of slides, whose stain is cells, what is large and bright is no debris: nothing is spoilt.
    """
    settings = dict(sorted(to_plain(batch.variant_settings(wildcards).detect).items()))
    if batch.pair(wildcards).slide is not None:
        settings["spoilt"] = "never"
    if control_samples(batch, wildcards):
        return settings
    return {**settings, "threshold_from": "negative"}


def snr_settings(batch: Batch, wildcards: Wildcards) -> dict[str, Any]:
    """Return those of the section ``detect`` that the signal-to-noise ratio depends on."""
    return batch.variant_settings(wildcards).detect.ratio_settings


def same_snr(batch: Batch, wildcards: Wildcards) -> list[str]:
    """Return the signal-to-noise ratio of an earlier search that has the same; mostly nothing."""
    variant = same_ratio_as(batch, wildcards)
    pattern = batch.outputs.file("detected", "snr.ome.zarr/zarr.json")
    return [] if variant is None else [pattern.format(**{**wildcards, "detection": variant})]


def difference_if_written(batch: Batch, wildcards: Wildcards) -> list[str]:
    """Return the difference of a method; nothing where it is computed from the others."""
    if wildcards["method"] not in written_methods(batch, wildcards):
        return []
    name = name_store(wildcards["method"], main_method(batch, wildcards))
    return [batch.outputs.file("subtracted", f"{name}/zarr.json")]


def same_difference(batch: Batch, wildcards: Wildcards) -> list[str]:
    """Return the difference of an earlier variant that has the same pixels; mostly nothing."""
    variant = same_difference_as(batch, wildcards)
    if variant is None:
        return []
    names = {**wildcards, "subtraction": variant}
    name = name_store(method_of(batch, wildcards), main_method(batch, names))
    return [batch.outputs.file("subtracted", f"{name}/zarr.json").format(**names)]


def drawn_regions(batch: Batch, wildcards: Wildcards) -> list[str]:
    """Return the file of regions that were drawn on post of a pair; nothing for most pairs."""
    regions = batch.pair(wildcards).regions
    return [] if regions is None else [str(regions)]


def is_control(batch: Batch, wildcards: Wildcards) -> bool:
    """Return whether a pair is an unstained control."""
    return batch.pair(wildcards).control


def control_search_counts(batch: Batch, wildcards: Wildcards) -> list[str]:
    """Return the counts of searches in controls of a pair's dye, those of the same variant."""
    pattern = batch.outputs.file("detected", "details/search.npz")
    samples = control_samples(batch, wildcards)
    return [pattern.format(**{**wildcards, "sample": sample}) for sample in samples]


def idle_controls(batch: Batch) -> list[str]:
    """Return a sentence for each unstained control whose dye no other pair has."""
    stained = {dye for (_, dye), pair in batch.pairs.items() if not pair.control}
    return [
        f"{sample} {dye} is an unstained control, but there is no other pair of its dye."
        for sample, dye in batch.controls
        if dye not in stained
    ]


# ------------------------------------------------------------------------------------------ slides


def slide_images(batch: Batch, wildcards: Wildcards) -> list[str]:
    """Return the images of a slide, or the files that stand for them."""
    known = batch.slides[wildcards["sample"]]
    return [str(find_key_file(path)) for path in known.slide.images]


def slide_record(batch: Batch, wildcards: Wildcards) -> dict[str, Any]:
    """Return a slide with the headers of its images in plain types."""
    return batch.slides[wildcards["sample"]].to_dict()


def slide_own_cells(batch: Batch, wildcards: Wildcards) -> dict[str, dict[str, str]]:
    """Return the cells of a slide's table that are carried through, by channel and column."""
    known = batch.slides[wildcards["sample"]]
    return {name: dict(cells) for name, cells in known.own_cells.items()}


def slide_register_settings(batch: Batch, _wildcards: Wildcards) -> dict[str, Any]:
    """Return the section ``register`` for the cycles of a slide, which nobody sweeps."""
    return _read_register(batch.settings)


def slide_scale_settings(batch: Batch, _wildcards: Wildcards) -> dict[str, Any]:
    """Return the section ``scale`` for the markers of a slide."""
    but = ("write", "default") if batch.settings.scale.default == "control" else ("write",)
    return _read_section(batch.settings, "scale", *but)


def registered_slide(batch: Batch, wildcards: Wildcards) -> dict[str, Any]:
    """Return what the map of a move follows from: its cycles, without what is done with them."""
    known = batch.slides[wildcards["sample"]]
    cycles = [int(cycle) for cycle in wildcards["cycle"].split("-")]
    plain = known.to_dict()
    return {
        **plain,
        "reference": cycles[0],
        "channels": [
            {key: one[key] for key in ("name", "image", "number", "cycle")}
            for one in plain["channels"]
            if one["cycle"] in cycles
        ],
        "registered_on": {c: n for c, n in plain["registered_on"].items() if c in cycles},
    }


def finds_spoilt(batch: Batch, wildcards: Wildcards) -> bool:
    """Return whether spoilt places of a cycle are looked for: by the map from the reference."""
    frame = batch.slides[wildcards["sample"]].slide.frame_cycle
    on = batch.settings.detect.spoilt != "never"
    return on and wildcards["cycle"].startswith(f"{frame}-")


def slide_maps(batch: Batch, wildcards: Wildcards, *, name: str) -> list[str]:
    """Return a file of each map between cycles of a slide, in the order of its moves."""
    moves = batch.slides[wildcards["sample"]].slide.moves
    pattern = batch.outputs.file("move", name)
    return [pattern.replace("{cycle}", f"{a}-{b}") for a, b in moves]


def slide_parts(batch: Batch, wildcards: Wildcards) -> list[str]:
    """Return the files of all parts of a slide, three of each; none of one that has no parts."""
    count = len(batch.slides[wildcards["sample"]].bands)
    files = STAGES["slide_part"].files
    patterns = (batch.outputs.file("part", name) for _ in range(count) for name in files)
    return [p.replace("{part}", str(n // len(files))) for n, p in enumerate(patterns)]


# ---------------------------------------------------------------------------- summary

# What the summary reads of each variant.
_SEARCHED = f"/{RESULT_OF['detection']}"
_SUMMARIZED = (*(f"/{name}" for name in (*RESULT_OF.values(), FIELD_FILE, HISTOGRAM)),)
_OF_SLIDES = ("/transform.json", f"/{FIELD_FILE}", *(f"/{name}" for name in SLIDE_FILES))


def summary_inputs(batch: Batch, _wildcards: Wildcards, results: str) -> list[str]:
    """Return what the summary reads of the pairs of a run: results, and the reviews there are.

    ``results`` is the directory that stands for the pattern of the results.
    """
    pairs = (job for key in batch.keys if key[1] for job in jobs_of(batch, *key))
    slides = (job for key in batch.keys if not key[1] for job in jobs_of(batch, *key))
    made = sorted(f for job in pairs for f in job.files if f.endswith(_SUMMARIZED))
    places = (file.removesuffix(_SEARCHED) for file in made if file.endswith(_SEARCHED))
    reviews = (f"{place}/{REVIEW}" for place in places)
    there = (path for path in reviews if Path(path.replace("<results>", results, 1)).is_file())
    return [*made, *there, *(f for job in slides for f in job.files if f.endswith(_OF_SLIDES))]


def summary_entries(batch: Batch, _wildcards: Wildcards, logs: str) -> list[dict[str, Any]]:
    """Return an entry of each variant of each pair, and of each slide.

    Of pairs and slides that the run leaves aside, those that an earlier run has started. ``logs``
    is the directory of the logs.
    """
    entries = []
    results = Path(batch.settings.results)
    others = {key for key in batch.others if key[1]}
    for sample, dye in batch.pairs:
        for names in variants_of(batch, "detected", {"sample": sample, "dye": dye}):
            entry = Entry(
                names=names,
                logs=f"{logs}/{sample}/{dye}",
                control=batch.pairs[sample, dye].control,
                groups=dict(batch.pairs[sample, dye].groups),
            )
            if (sample, dye) not in others or (results / entry.files[-1]).parent.is_dir():
                entries.append(asdict(entry))
    slides = [
        (name, of)
        for name, of in slide_markers(batch).items()
        if (name, "") not in batch.others or (results / name).is_dir()
    ]
    return entries + [asdict(SlideEntry(name, of, f"{logs}/{name}")) for name, of in slides]


def slide_markers(batch: Batch) -> dict[str, dict[str, str]]:
    """Return the markers that stay in each slide, with their backgrounds."""
    return {name: known.slide.subtracted for name, known in batch.slides.items()}


def summary_problems(batch: Batch, _wildcards: Wildcards) -> list[dict[str, str | None]]:
    """Return the pairs that were left out, with a sentence each."""
    return [{"sample": p.sample, "dye": p.dye, "message": p.message} for p in batch.problems]
