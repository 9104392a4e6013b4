"""Shared by all stages: the batch, its targets, and the resource functions."""

import os
import re
import sys
from dataclasses import asdict
from pathlib import Path

from snakemake import __version__ as snakemake_version
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

try:
    import unglow
except ImportError as error:
    raise WorkflowError(
        "the Python package unglow is not installed for "
        f"{sys.executable}: run 'pip install .' in the checkout of the workflow."
    ) from error

from unglow.core.errors import UnglowError
from unglow.io.zarr.bands import PATTERN as BAND
from unglow.jobs.obstacles import message_of, obstacles
from unglow.photometry.gain.scale import METHODS
from unglow.workflow.batch import Batch
from unglow.workflow.paths import FIGURES, FORMS, ROOT
from unglow.workflow.samples import ROLES
from unglow.workflow.samples.naming import one_of
from unglow.workflow.snakemake_internals import (
    bear_with_slurm,
    look_often,
    start_jobs_at_once,
    unknown_version,
)
from unglow.workflow.variants import REGISTRATION, SUBTRACTION, variants


def refusal(text):
    """The error that ends the run; it is told also where Snakemake is not to say a word."""
    settings = workflow.output_settings
    silent = any(kind.name == "ALL" for kind in settings.quiet or ())
    if silent and not settings.dryrun and workflow.is_main_process:
        print(text, file=sys.stderr)
    return WorkflowError(text)


VERSION = "0.1.0"

if unglow.__version__ != VERSION:
    raise refusal(
        f"this is the workflow of unglow {VERSION} but the installed package is "
        f"{unglow.__version__}: install the package from the same checkout or tag."
    )
if workflow.is_main_process and (newer := unknown_version(snakemake_version)):
    logger.warning(newer)

# Snakemake formats the one, and looks for its locks in the other with a pattern.
for whose, place in (("workflow's", str(workflow.basedir)), ("working", os.getcwd())):
    if re.search(r"[{}]" if whose != "working" else r"\{\s*[.\w]+\s*[,}]", place):
        raise refusal(
            f"the {whose} directory is {place}, whose braces Snakemake would fill in: rename it."
        )
if Path("config/config.yaml").is_dir():
    raise refusal(
        "config/config.yaml is a directory, but has to be a file: move it away."
    )

try:
    batch = Batch.load(config)
except UnglowError as error:
    raise refusal(str(error)) from None

out = batch.outputs
registrations = variants(batch.settings, REGISTRATION)
subtractions = variants(batch.settings, SUBTRACTION)

if workflow.is_main_process:
    for problem in batch.problems:
        logger.warning(f"left out: {problem.message}")
    for sentence in batch.idle_controls:
        logger.warning(sentence)
    place = Path(batch.settings["results"]).absolute()
    place = next(p for p in (place, *place.parents) if p.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        logger.warning(
            f"{place} cannot be written, so nothing new can be computed: mend its permissions or "
            "set another directory with --config results=DIRECTORY."
        )
    # Snakemake keeps its notes there, also for a dry run.
    notes = obstacles(Path(".snakemake") / name for name in ("locks/x", "metadata/x"))
    if notes:
        raise refusal(message_of(notes))


# ----------------------------------------------------------------------------- inputs and targets


def raw_post(wildcards):
    return str(batch.pair(wildcards).post)


def raw_pre(wildcards):
    return str(batch.pair(wildcards).pre)


def raw_bands(role):
    """A function that gives what the bands of a raw image leave; nothing if it is not split."""
    return bands_of("ingest", out.pair(store("{role}")), role=role)


def register_inputs(wildcards):
    return batch.register_inputs(wildcards)


def bands_of(stage, pattern, **more):
    """A function that gives what the jobs of bands leave; nothing for a pair that is not split."""

    def files(wildcards):
        return batch.band_files(stage, pattern, {**wildcards, **more})

    return files


def control_tallies(wildcards):
    """What the searches of unstained controls of the dye have counted; nothing for a control."""
    return batch.control_tallies(wildcards)


def store(name):
    """The declared output of a store: its root metadata, which holds a digest of all pixels."""
    return f"{name}.ome.zarr/{ROOT}"


def variants_of(pattern, sample, dye):
    """Paths of all variants of one pair."""
    return collect(
        pattern,
        sample=sample,
        dye=dye,
        registration=[v.name for v in registrations],
        subtraction=[v.name for v in subtractions],
    )


def methods_of(pattern, sample, dye, methods=batch.methods):
    """Paths of all variants and scale methods of one pair, or of some of its methods."""
    paths = []
    for r in registrations:
        for s in subtractions:
            names = {
                "sample": sample,
                "dye": dye,
                "registration": r.name,
                "subtraction": s.name,
            }
            paths += collect(pattern, **names, method=methods(names))
    return paths


def evidence(sample, dye):
    """What summary and comparison read of one pair."""
    return [
        *collect(out.pair("plan.json"), sample=sample, dye=dye),
        *variants_of(out.registered("transform.json"), sample, dye),
        *variants_of(out.registered("displacement.npz"), sample, dye),
        *variants_of(out.subtracted("scale.json"), sample, dye),
        *methods_of(
            out.subtracted("difference/{method}.histogram.npz"),
            sample,
            dye,
            batch.written,
        ),
        *variants_of(out.subtracted("detection.json"), sample, dye),
    ]


def all_evidence(wildcards):
    return sorted({path for key in batch.pairs for path in evidence(*key)})


def labels(figure):
    """Labels of a report item: what it shows, and of which variant."""
    names = {"figure": figure}
    if out.registration:
        names["registration"] = "{registration}"
    if out.subtraction:
        names["subtraction"] = "{subtraction}"
    return names


def pair_evidence(wildcards):
    return sorted(set(evidence(wildcards.sample, wildcards.dye)))


def of_main_method(name):
    """A function that gives a file of the method that stands for a variant: it is always written."""

    def file(wildcards):
        return out.subtracted(name).replace("{method}", batch.main_method(wildcards))

    return file


def difference_if_written(wildcards):
    """The difference of a method; nothing where it is computed from the others."""
    written = wildcards.method in batch.written(wildcards)
    return [out.subtracted(store("difference/{method}"))] if written else []


def pair_stores(wildcards):
    """What the differences of a pair's variants are read or computed from."""
    names = wildcards.sample, wildcards.dye
    return [
        *collect(out.pair(store("post")), sample=names[0], dye=names[1]),
        *variants_of(out.registered(store("aligned_pre")), *names),
        *variants_of(out.subtracted("gain_map.npz"), *names),
        *methods_of(
            out.subtracted(store("difference/{method}")), *names, batch.written
        ),
    ]


# Every file that a job publishes is asked for: Snakemake does not miss one that nobody asks for as
# long as others of its job are there. Digests are not: results of a version without them are whole.
OF_REGISTRATION = (
    store("aligned_pre"),
    "blocks.csv",
    "statistics.npz",
    "bins.npz",
    "figures/registration.png",
    "figures/residuals.png",
    "figures/map_error.png",
)
OF_SUBTRACTION = (
    "gain_map.npz",
    "candidates.csv",
    "candidates.geojson",
    "search.npz",
    *FIGURES,
)
OF_METHOD = (
    store("difference/{method}"),
    "difference/{method}.background.npz",
)


def final_outputs():
    """Everything that a run makes, beside digests."""
    targets = [out.run("summary.tsv"), out.run("verdict.txt")]
    for key in batch.pairs:
        targets += evidence(*key)
        targets += collect(
            out.pair(store("{role}")), sample=key[0], dye=key[1], role=ROLES
        )
        for name in OF_REGISTRATION:
            targets += variants_of(out.registered(name), *key)
        for name in OF_SUBTRACTION:
            targets += variants_of(out.subtracted(name), *key)
        for name in OF_METHOD:
            targets += methods_of(out.subtracted(name), *key, batch.written)
        if batch.wants_snr:
            targets += variants_of(out.subtracted(store("snr")), *key)
        targets += exports_of(*key)
        if batch.settings["sweep"]:
            for name in ("comparison.tsv", "comparison.png"):
                targets += collect(out.pair(name), sample=key[0], dye=key[1])
    return sorted(set(targets))


def exports_of(sample, dye):
    """Paths of the images of a pair that are exported."""
    paths = []
    for image, form in batch.exported():
        pattern = out.export(image).replace("{form}", form)
        paths += methods_of(pattern, sample, dye)
    return paths


def summary_entries():
    """The pairs and variants of the summary, as plain mappings."""
    return [asdict(entry) for entry in batch.entries(workflow.pathvars.apply("<logs>"))]


def comparison_entries(wildcards):
    """The variants of one pair."""
    return [
        entry
        for entry in summary_entries()
        if (entry["sample"], entry["dye"]) == (wildcards.sample, wildcards.dye)
    ]


def summary_problems():
    """The pairs that were left out, with a sentence each."""
    return [
        {"sample": p.sample, "dye": p.dye, "message": p.message} for p in batch.problems
    ]


# ------------------------------------------------------------------------------------- parameters


def register_settings(wildcards):
    return batch.register_settings(wildcards)


def scale_settings(wildcards):
    settings = batch.variant_settings(wildcards)
    manual = batch.manual_gain(batch.pair(wildcards), settings)
    estimated = {key: v for key, v in settings["scale"].items() if key != "write"}
    return {
        **estimated,
        "methods": list(batch.methods(wildcards)),
        "manual": manual,
    }


def counted_methods(wildcards):
    return list(batch.counted(wildcards))


def detect_settings(wildcards):
    return batch.detect_settings(wildcards)


def snr_settings(wildcards):
    return batch.snr_settings()


def control_samples(wildcards):
    return list(batch.controls(wildcards))


def is_control(wildcards):
    return batch.pair(wildcards).control


def channel_setting(wildcards):
    return batch.channel(batch.pair(wildcards))


def header_of(role):
    """A function that gives the header of one image of the pair, without its path."""

    def header(wildcards):
        headers = batch.headers[wildcards.sample, wildcards.dye]
        record = headers[ROLES.index(role)].to_dict()
        return {key: value for key, value in record.items() if key != "path"}

    return header
