"""The configuration as typed settings: every key with its default, meaning and rule.

The sections of the stages are where the stages are: `RegisterSettings`, `ScaleSettings` and
`DetectSettings`. A key is added in one of these classes; ``make settings`` writes it into
``config/`` then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unglow.core.settings import key, section
from unglow.detection.settings import DetectSettings
from unglow.photometry.gain.scale import ScaleSettings
from unglow.registration.settings import RegisterSettings
from unglow.workflow.stage_table import STAGES


@dataclass(frozen=True, slots=True)
class PlaneSettings:
    """Plane of a stack that is read (config section ``plane``)."""

    z: int | str | None = key(
        "Focal plane counted from 0, or max or mean to project all of them.",
        default=None,
        minimum=0,
        pattern="^(max|mean)$",
    )
    t: int | str | None = key(
        "Time point counted from 0, or max or mean to project all of them.",
        default=None,
        minimum=0,
        pattern="^(max|mean)$",
    )


@dataclass(frozen=True, slots=True)
class MultiplexedSettings:
    """Subtraction of slides of many channels (config section ``multiplexed``)."""

    backgrounds: dict[str, Any] = key(
        "For slides without markers.csv - the name of each background channel to the markers "
        "that it is subtracted from, a list of names or all; names and exposure times are "
        "those of the OME-XML.",
        default={},
        additionalProperties={
            "type": ["array", "string"],
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "pattern": "^(all)$",
        },
    )
    reference: int | str | None = key(
        "Cycle whose frame is that of the corrected slide, by its number or by the name of one of "
        "its channels; null takes the first one.",
        default=None,
        minimum=1,
        minLength=1,
    )
    several_backgrounds: str = key(
        "How the gains of a marker with several backgrounds are found - fitted together, or by "
        "exposure times weighted by cycle as Akoya and HuBMAP do (the fitted ones are still "
        "reported).",
        default="fit",
        enum=["fit", "interpolate"],
    )
    output: str = key(
        "Whether the corrected slide is written as OME-TIFF, as OME-Zarr, or as both.",
        default="tiff",
        enum=["tiff", "zarr", "both"],
    )
    dtype: str = key(
        "Grey values of the corrected slide - those of the input, clipped at 0 (the clipped "
        "share is reported), or float32 with negative values.",
        default="input",
        enum=["input", "float32"],
    )
    rounding: str = key(
        "How whole grey values are rounded; down is what Backsub does.",
        default="nearest",
        enum=["nearest", "down"],
    )
    candidates: tuple[str, ...] | str = key(
        "Markers that are also searched for candidates, a list of names or all; each becomes "
        "a pair of its own, with its background as pre, in the sample <slide>.candidates.",
        default=(),
        items={"type": "string", "minLength": 1},
        uniqueItems=True,
        pattern="^(all)$",
    )


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Images that are written in addition (config section ``exports``)."""

    zarr: tuple[str, ...] = key(
        "Images that are written as OME-Zarr only if they are named here, or in another "
        "format below - snr, the signal-to-noise ratio that candidates are found on.",
        default=(),
        items={"type": "string", "enum": ["snr"]},
        uniqueItems=True,
    )
    tiff: tuple[str, ...] = key(
        "Images that are written as tiled, compressed OME-TIFF with their pyramid (any of "
        "difference, aligned_pre, post, pre, snr).",
        default=(),
        items={"type": "string", "enum": ["difference", "aligned_pre", "post", "pre", "snr"]},
        uniqueItems=True,
    )
    fits: tuple[str, ...] = key(
        "The same as FITS, full resolution only and not compressed.",
        default=(),
        items={"type": "string", "enum": ["difference", "aligned_pre", "post", "pre", "snr"]},
        uniqueItems=True,
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """A configuration with all defaults."""

    raw: str = key(
        "Directory with raw/<sample>/<name with pre or post>_<dye>.tif, relative to the "
        "working directory.",
        default="raw",
        minLength=1,
    )
    samples: str | None = key(
        "Sample sheet (TSV or CSV with sample, dye, pre, post) used instead of the raw "
        "directory; null takes config/samples.tsv if that file exists and the raw directory "
        "otherwise.",
        default=None,
    )
    results: str = key(
        "Directory for everything that is computed, relative to the working directory.",
        default="results",
        minLength=1,
    )
    only: tuple[str, ...] | None = key(
        "Pairs to run, each as SAMPLE/DYE, where * and ? stand for any letters (Rock7/*); a "
        "slide by its name alone. Results of the others are kept as they are. null runs all.",
        default=None,
        minItems=1,
        items={"type": "string", "minLength": 1},
    )
    channel: str = key(
        "Channel that carries the signal, the same for pre and post - a name (G), an index "
        "(1), a sum (R+G), or auto to decide from the pixels of both images. The sample sheet"
        " can set it per pair.",
        default="auto",
        minLength=1,
    )
    light: str = key(
        "What the images show - fluorescence, or bright-field (dark is signal on a bright "
        "background; no candidates are searched there); auto decides from the pixels of each "
        "image.",
        default="auto",
        enum=["auto", "fluorescence", "bright-field"],
    )
    series: int | None = key(
        "Which image of a file with several to read, counted from 0; null takes the only or "
        "the baseline one.",
        default=None,
        minimum=0,
    )
    plane: PlaneSettings = section(
        PlaneSettings,
        "Which plane of a stack to read; a file with several planes is refused until one is "
        "chosen.",
    )
    memory_per_job: float = key(
        "Memory that one job may take, in MB (1 MB = 1e6 bytes). It sets how many blocks are "
        "in flight and never what is computed, so another budget gives the same bytes and "
        "reruns nothing.",
        default=2000,
        minimum=300,
    )
    timeout_per_job: int | None = key(
        "Minutes after which a job is ended with the stacks of its threads in its log; null "
        "takes 100 times what the job's images need on an idle machine.",
        default=None,
        minimum=1,
    )
    force_run: bool = key(
        "Run even if preflight finds too little memory or disk space, or too many jobs; what "
        "it found is then a warning, and no pair is skipped because of it.",
        default=False,
    )
    profile: bool | tuple[str, ...] = key(
        "Record what the threads of each job are doing (true), or of the jobs of some rules "
        "([register, detect]); the report then has a flame graph. Results do not change.",
        default=False,
        items={"enum": sorted(STAGES)},
        uniqueItems=True,
    )
    profile_interval_ms: float = key(
        "Time between two samples of the threads of a profiled job, ms; below 10 they take "
        "more than 1 % of a processor.",
        default=10,
        minimum=1,
        maximum=1000,
    )
    allow_failed: bool = key(
        "Finish with exit status 0 even if pairs failed or were skipped (summary.tsv still "
        "lists them).",
        default=False,
    )
    container: str | None = key(
        "Image that jobs run in with `--sdm apptainer` - a file (unglow.sif), or what "
        "Apptainer pulls (docker://...). Without that option it has no meaning.",
        default=None,
    )
    register: RegisterSettings = section(RegisterSettings, "How pre is registered onto post.")
    scale: ScaleSettings = section(
        ScaleSettings, "How much brighter the background became from pre to post."
    )
    detect: DetectSettings = section(
        DetectSettings, "What counts as a candidate on the difference of the default scale method."
    )
    multiplexed: MultiplexedSettings = section(
        MultiplexedSettings,
        "Slides of many channels, found in the raw directory by their markers.csv.",
    )
    figures: str = key(
        "Figures of each pair - main draws the six that judge a result; all draws residuals, "
        "ratio_histogram, difference_histogram and purity as well.",
        default="main",
        enum=["main", "all"],
    )
    exports: ExportSettings = section(
        ExportSettings,
        "Images that are written in addition to what every run writes; those in other formats"
        " go to exports/ of each pair, a difference for each scale method.",
    )
    sweep: dict[str, Any] = key(
        "Parameter variants side by side - for each dotted name a list of values, for example"
        " scale.percentile with 40, 50 and 60; channel, and all keys of register (but from "
        "and on), scale and detect can be swept. Every combination is computed, at most "
        "10000; stages that a parameter does not touch are shared.",
        default={},
        additionalProperties=False,
        patternProperties={
            "^(channel|(register|scale|detect)\\.[a-z_]+)$": {
                "type": "array",
                "minItems": 1,
                "uniqueItems": True,
                "description": "Values of one parameter.",
            }
        },
    )
    pathvars: dict[str, Any] = key(
        "Snakemake's own path variables (logs, benchmarks, results), for use as a module.",
        default={},
        additionalProperties={"type": "string"},
    )
    order: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    """Keys of each section in the order of the user's configuration."""
