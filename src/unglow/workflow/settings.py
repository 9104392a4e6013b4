"""The configuration as typed settings: every key with its default, meaning and rule.

The sections of the stages are where the stages are: `RegisterSettings`, `ScaleSettings` and
`DetectSettings`. A key is added in one of these classes; ``make settings`` writes it into
``config/`` then.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from unglow.core.settings import All, Section, Text, about
from unglow.detection.settings import DetectSettings
from unglow.photometry.gain.scale import ScaleSettings
from unglow.registration.settings import RegisterSettings
from unglow.workflow.stage_table import STAGES

_Plane = Annotated[int, Meta(ge=0, lt=10**9)] | Annotated[str, Meta(pattern="^(max|mean)$")]
LEAST_BUDGET, USUAL_BUDGET = 300, 2000
"""The least and the default value of `Settings.memory_per_job`, MB."""
_Exported = Literal["difference", "aligned_pre", "post", "pre", "snr"]
_Stage = Annotated[
    str,
    Meta(pattern=f"^({'|'.join(sorted(STAGES))})$", extra_json_schema={"enum": sorted(STAGES)}),
]
_Swept = Annotated[str, Meta(pattern=r"^(channel|(register|scale|detect)\.[a-z_]+)$")]
_Values = Annotated[list[Any], Meta(min_length=1, description="Values of one parameter.")]


class PlaneSettings(Section, frozen=True):
    """Plane of a stack that is read (config section ``plane``)."""

    z: Annotated[
        _Plane | None,
        about("Focal plane counted from 0, or max or mean to project all of them."),
    ] = None
    t: Annotated[
        _Plane | None,
        about("Time point counted from 0, or max or mean to project all of them."),
    ] = None


class MultiplexedSettings(Section, frozen=True):
    """Subtraction of slides of many channels (config section ``multiplexed``)."""

    backgrounds: Annotated[
        dict[str, Annotated[list[Text], Meta(min_length=1)] | All],
        about(
            "For slides without markers.csv - the name of each background channel to the markers "
            "that it is subtracted from, a list of names or all. Names and exposure times are "
            "those of the OME-XML."
        ),
    ] = field(default_factory=dict)
    reference: Annotated[
        Annotated[int, Meta(ge=1, lt=10**9)] | Text | None,
        about(
            "Cycle whose frame is that of the corrected slide, by its number or by the name of "
            "one of its channels. null takes the first one."
        ),
    ] = None
    several_backgrounds: Annotated[
        Literal["fit", "interpolate"],
        about(
            "How gains of several backgrounds are found - fitted together, or by exposure times "
            "weighted by cycle (Akoya, HuBMAP)."
        ),
    ] = "fit"
    output: Annotated[
        Literal["tiff", "zarr", "both"],
        about("Whether the corrected slide is written as OME-TIFF, as OME-Zarr, or as both."),
    ] = "tiff"
    dtype: Annotated[
        Literal["input", "float32"],
        about(
            "Grey values of the corrected slide - those of the input, clipped at 0 (the clipped "
            "share is reported), or float32 with negative values."
        ),
    ] = "input"
    rounding: Annotated[
        Literal["nearest", "down"],
        about("How whole grey values are rounded; down is what Backsub does."),
    ] = "nearest"
    candidates: Annotated[
        tuple[Text, ...] | All,
        about(
            "Markers that are also searched for candidates, a list of names or all. Each becomes "
            "a pair of its own, with its background as pre, in the sample <slide>.candidates."
        ),
    ] = ()


class ExportSettings(Section, frozen=True):
    """Images that are written in addition (config section ``exports``)."""

    zarr: Annotated[
        tuple[Literal["snr"], ...],
        about(
            "Images that are also written as OME-Zarr - snr, the signal-to-noise ratio that "
            "candidates are found on."
        ),
    ] = ()
    tiff: Annotated[
        tuple[_Exported, ...],
        about(
            "Images that are written as tiled, compressed OME-TIFF with their pyramid (any of "
            "difference, aligned_pre, post, pre, snr)."
        ),
    ] = ()
    fits: Annotated[
        tuple[_Exported, ...], about("The same as FITS, full resolution only and not compressed.")
    ] = ()


class Settings(Section, frozen=True):
    """A configuration with all defaults."""

    raw: Annotated[
        str,
        about(
            "Directory with raw/<sample>/<name with pre or post>_<dye>.tif, relative to the "
            "working directory.",
            min_length=1,
        ),
    ] = "raw"
    samples: Annotated[
        str | None,
        about(
            "Sample sheet (TSV or CSV with sample, dye, pre, post) used instead of the raw "
            "directory. null takes config/samples.tsv if that file exists and the raw directory "
            "otherwise."
        ),
    ] = None
    results: Annotated[
        str,
        about(
            "Directory for everything that is computed, relative to the working directory.",
            min_length=1,
        ),
    ] = "results"
    only: Annotated[
        Annotated[tuple[Text, ...], Meta(min_length=1)] | None,
        about(
            "Pairs to run, each as SAMPLE/DYE, where * and ? stand for any letters (Rock7/*); a "
            "slide by its name alone. Results of the others are kept as they are. null runs all."
        ),
    ] = None
    channel: Annotated[
        str,
        about(
            "Channel that carries the signal, the same for pre and post. It is a name (G), an "
            "index (1), a sum (R+G), or auto to decide from the pixels. The sample sheet can set "
            "it per pair.",
            min_length=1,
        ),
    ] = "auto"
    light: Annotated[
        Literal["auto", "fluorescence", "bright-field"],
        about(
            "What the images show - fluorescence, or bright-field (dark is signal on a bright "
            "background). auto decides from the pixels of each image. Candidates are searched in "
            "fluorescence alone."
        ),
    ] = "auto"
    series: Annotated[
        Annotated[int, Meta(ge=0, lt=10**9)] | None,
        about(
            "Which image of a file with several to read, counted from 0; null takes the only or "
            "the baseline one."
        ),
    ] = None
    plane: Annotated[
        PlaneSettings,
        about(
            "Which plane of a stack to read; a file with several planes is refused until one is "
            "chosen."
        ),
    ] = PlaneSettings()
    memory_per_job: Annotated[
        float,
        about(
            "Memory that one job may take, in MB (1 MB = 1e6 bytes). It sets how many blocks are "
            "in flight and never what is computed, so another budget gives the same bytes and "
            "reruns nothing.",
            ge=LEAST_BUDGET,
            le=1e9,
        ),
    ] = USUAL_BUDGET
    timeout_per_job: Annotated[
        Annotated[int, Meta(ge=1, lt=10**9)] | None,
        about(
            "Minutes after which a job is ended with the stacks of its threads in its log. null "
            "takes 100 times what the job's images need on an idle machine."
        ),
    ] = None
    force_run: Annotated[
        bool,
        about(
            "Run even if preflight finds too little memory or disk space, or too many jobs. What "
            "it found is then a warning, and no pair is skipped because of it."
        ),
    ] = False
    profile: Annotated[
        bool | tuple[_Stage, ...],
        about(
            "Record what the threads of each job are doing (true), or of the jobs of some rules "
            "([register, detect]). The report then has a flame graph. Results do not change."
        ),
    ] = False
    profile_interval_ms: Annotated[
        float,
        about(
            "Time between two samples of the threads of a profiled job, ms; below 10 they take "
            "more than 1 % of a processor.",
            ge=1,
            le=1000,
        ),
    ] = 10
    allow_failed: Annotated[
        bool,
        about(
            "Finish with exit status 0 even if pairs failed or were skipped (summary.tsv still "
            "lists them)."
        ),
    ] = False
    container: Annotated[
        str | None,
        about(
            "Image that jobs run in with `--sdm apptainer` - a file (unglow.sif), or what "
            "Apptainer pulls (docker://...). Without that option it has no meaning."
        ),
    ] = None
    register: Annotated[RegisterSettings, about("How pre is registered onto post.")] = (
        RegisterSettings()
    )
    scale: Annotated[
        ScaleSettings, about("How much brighter the background became from pre to post.")
    ] = ScaleSettings()
    detect: Annotated[
        DetectSettings,
        about("What counts as a candidate on the difference of the default scale method."),
    ] = DetectSettings()
    multiplexed: Annotated[
        MultiplexedSettings,
        about("Slides of many channels, found in the raw directory by their markers.csv."),
    ] = MultiplexedSettings()
    figures: Annotated[
        Literal["main", "all"],
        about(
            "Figures of each pair - main draws the six that judge a result; all draws residuals, "
            "ratio_histogram, difference_histogram and purity as well."
        ),
    ] = "main"
    exports: Annotated[
        ExportSettings,
        about(
            "Images that are written in addition to what every run writes. Those in other formats"
            " go to exports/ of each pair, a difference for each scale method."
        ),
    ] = ExportSettings()
    sweep: Annotated[
        dict[_Swept, _Values],
        about(
            "Parameter variants side by side - for each dotted name a list of values, for example"
            " scale.percentile with 40, 50 and 60. channel, and all keys of register (but from "
            "and on), scale and detect can be swept. Every combination is computed, at most "
            "10000; stages that a parameter does not touch are shared."
        ),
    ] = field(default_factory=dict)
    pathvars: Annotated[
        dict[str, str],
        about("Snakemake's own path variables (logs, benchmarks, results), for use as a module."),
    ] = field(default_factory=dict)
