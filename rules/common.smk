"""Shared by all stages: the batch, its targets, and the resource functions."""

import asyncio
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.io import apply_wildcards
from snakemake.logging import logger

try:
    import unglow
except ImportError as error:
    raise WorkflowError(
        "the Python package unglow is not installed for "
        f"{sys.executable}: run 'pip install .' in the checkout of the workflow."
    ) from error

from unglow import cluster, memory
from unglow.attempts import next_mb, next_min
from unglow.bands import PATTERN as BAND
from unglow.batch import ROLES, Batch
from unglow.errors import UnglowError
from unglow.outputs import FORMS, ROOT
from unglow.sweep import REGISTRATION, SUBTRACTION, variants

VERSION = "0.1.0"
METHODS = ("linear", "moffat", "percentile", "manual")

if unglow.__version__ != VERSION:
    raise WorkflowError(
        f"this is the workflow of unglow {VERSION} but the installed package is "
        f"{unglow.__version__}: install the package from the same checkout or tag."
    )

try:
    batch = Batch.load(config)
except UnglowError as error:
    raise WorkflowError(str(error)) from None

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


def one_of(names):
    """A wildcard constraint that allows these names and no others."""
    return "|".join(sorted({re.escape(str(n)) for n in names})) or "(?!)"


# ----------------------------------------------------------------------------- inputs and targets


def raw_post(wildcards):
    return str(batch.pair(wildcards).post)


def raw_pre(wildcards):
    return str(batch.pair(wildcards).pre)


def raw_image(wildcards):
    return str(getattr(batch.pair(wildcards), wildcards.role))


def register_inputs(wildcards):
    return batch.register_inputs(wildcards)


def bands_of(stage, pattern):
    """A function that gives what the jobs of bands leave; nothing for a pair that is not split."""

    def files(wildcards):
        return batch.band_files(stage, pattern, wildcards)

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


def methods_of(pattern, sample, dye):
    """Paths of all variants and scale methods of one pair."""
    return [
        path
        for r in registrations
        for s in subtractions
        for path in collect(
            pattern,
            sample=sample,
            dye=dye,
            registration=r.name,
            subtraction=s.name,
            method=batch.methods(
                {
                    "sample": sample,
                    "dye": dye,
                    "registration": r.name,
                    "subtraction": s.name,
                }
            ),
        )
    ]


def evidence(sample, dye):
    """What summary and comparison read of one pair."""
    return [
        *collect(out.pair("plan.json"), sample=sample, dye=dye),
        *variants_of(out.registered("transform.json"), sample, dye),
        *variants_of(out.registered("displacement.npz"), sample, dye),
        *variants_of(out.subtracted("scale.json"), sample, dye),
        *methods_of(out.subtracted("difference/{method}.histogram.npz"), sample, dye),
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


def differences(wildcards):
    """The differences of all methods of a variant; candidates are looked for on one of them."""
    return [
        out.subtracted(store(f"difference/{method}"))
        for method in batch.methods(wildcards)
    ]


def difference_histograms(wildcards):
    """The histograms of these differences."""
    return [
        out.subtracted(f"difference/{method}.histogram.npz")
        for method in batch.methods(wildcards)
    ]


def pair_differences(wildcards):
    return methods_of(
        out.subtracted(store("difference/{method}")), wildcards.sample, wildcards.dye
    )


def final_outputs():
    """Everything that a run makes."""
    targets = [out.run("summary.tsv"), out.run("verdict.txt")]
    for key in batch.pairs:
        targets += evidence(*key)
        targets += collect(
            out.pair(store("{role}")), sample=key[0], dye=key[1], role=ROLES
        )
        targets += variants_of(out.registered(store("aligned_pre")), *key)
        targets += variants_of(out.registered("blocks.csv"), *key)
        targets += variants_of(out.registered("statistics.npz"), *key)
        targets += variants_of(out.registered("bins.npz"), *key)
        targets += methods_of(out.subtracted(store("difference/{method}")), *key)
        targets += methods_of(
            out.subtracted("difference/{method}.background.npz"), *key
        )
        targets += variants_of(out.subtracted("candidates.csv"), *key)
        targets += variants_of(out.subtracted("search.npz"), *key)
        targets += variants_of(out.subtracted("figures/candidates.png"), *key)
        targets += variants_of(out.registered("figures/registration.png"), *key)
        # Results of a version that did not draw it get it too.
        targets += variants_of(out.registered("figures/map_error.png"), *key)
        targets += variants_of(out.subtracted("figures/ratio_histogram.png"), *key)
        targets += methods_of(out.subtracted("figures/difference_{method}.png"), *key)
        if batch.wants_snr:
            targets += variants_of(out.subtracted(store("snr")), *key)
        targets += exports_of(*key)
        if batch.settings["sweep"]:
            targets += collect(out.pair("comparison.tsv"), sample=key[0], dye=key[1])
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


def start_jobs_at_once():
    """On this machine alone: lift Snakemake's limit of jobs started per second (100 by default).

    No option switches it off. To keep it, each job that ends sets off one more timer that wakes the
    scheduler every second as long as jobs wait: after some hundred jobs Snakemake itself takes a
    whole core. The last timer keeps it from ending for up to a second.
    """
    scheduler = workflow.scheduler
    if workflow.local_exec and getattr(scheduler, "job_rate_limiter", None) is not None:
        scheduler.job_rate_limiter = None


def pair_group(wildcards):
    """On a batch system: one job for all jobs of a small pair; none for those of a large one.

    Nor for those of one that is split: its bands are jobs of their own, in the midst of the others.
    """
    if batch.pixels(wildcards) > cluster.SMALL_PX or batch.is_split(wildcards):
        return None
    return f"{wildcards.sample}.{wildcards.dye}"


def figures_group(wildcards):
    """On a batch system: one job for the figures of a large pair; with the rest of a small one."""
    name = f"{wildcards.sample}.{wildcards.dye}"
    return pair_group(wildcards) or f"{name}.figures"


def tell_jobs():
    """On a node: what of its declared memory a job has to leave to what has started it."""
    if workflow.remote_exec:
        os.environ[cluster.VARIABLE] = str(launcher_mb())


def look_often():
    """On a batch system: look how jobs are at least every `cluster.LOOK_S`.

    The executor of Slurm waits 10 s longer after each look that found no job done, up to three
    minutes, and has no option for that: a short job would wait for its turn longer than it runs.
    """
    executor = getattr(workflow.scheduler, "_executor", None)
    if hasattr(executor, "next_seconds_between_status_checks"):

        async def rest():
            seconds = executor.next_seconds_between_status_checks
            await asyncio.sleep(min(seconds, cluster.LOOK_S))

        executor.sleep = rest


def refresh_summary():
    """After a run, and after a failed one too: what is there, and what is not, in one table."""
    from unglow.summary import entries_from, verdict, write_summary

    target = Path(workflow.pathvars.apply(out.run("summary.tsv")))
    if target.parent.is_dir():
        try:
            rows = write_summary(
                entries_from(summary_entries()),
                summary_problems(),
                target.parent,
                target,
            )
        except UnglowError as error:
            logger.error(str(error))
            return
        logger.info(f"{target}: {verdict(rows).strip()}")


def refresh_report():
    """After a run, and after a failed one too: a page that tells all; it never spoils a run."""
    place = Path(workflow.pathvars.apply("<results>"))
    if place.is_dir():
        try:
            from unglow.report import write_report

            ending = None if run_recorder is None else run_recorder.outcome
            page = write_report(place, ending=ending)
            logger.info(f"{page}: open it in a browser.")
        except Exception as error:
            logger.warning(f"no report was written ({type(error).__name__}: {error}).")


# ------------------------------------------------------------------------------------- parameters


def register_settings(wildcards):
    return batch.register_settings(wildcards)


def scale_settings(wildcards):
    settings = batch.variant_settings(wildcards)
    manual = batch.manual_gain(batch.pair(wildcards), settings)
    return {
        **settings["scale"],
        "methods": list(batch.methods(wildcards)),
        "manual": manual,
    }


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


# -------------------------------------------------------------------------------------- resources


def launcher_mb():
    """Memory that starting a job takes beside it, MB: 0 unless a batch system runs it elsewhere."""
    if workflow.remote_exec:
        return cluster.launcher_mb(None, os.environ)
    executor = workflow.executor_plugin
    if executor is None or not executor.common_settings.non_local_exec:
        return 0
    return cluster.launcher_mb(executor.name, os.environ)


def record_of(rulename, wildcards):
    """The telemetry file of a job."""
    return Path(apply_wildcards(workflow.get_rule(rulename).log.telemetry, wildcards))


def mem_mb(stage, beside=False):
    """A function that predicts the peak memory of a stage, MB, from headers and budget.

    Jobs of rules that always run beside Snakemake itself need no launcher.
    """

    def predicted(wildcards, threads, attempt, rulename):
        declared = batch.mem_mb(stage, wildcards, threads)
        if attempt > 1:
            declared = next_mb(record_of(rulename, wildcards), declared)
        return declared + (0 if beside else launcher_mb())

    return predicted


def disk_mb(role, split=None):
    """A function that bounds the size of a store, MB, or of what a band of a stage writes of it."""

    def bound(wildcards):
        name = wildcards.get("role", role)
        layout = batch.layout(wildcards.sample, wildcards.dye, name)
        count = batch.band_count(split, wildcards) if split else 1
        return memory.store_disk_mb(layout, bands=count)

    return bound


def candidates_disk_mb(wildcards):
    """A bound of the size of the list of candidates, MB."""
    layout = batch.layout(wildcards.sample, wildcards.dye, "derived")
    return memory.candidates_disk_mb(layout)


def runtime(seconds_per_megapixel, split=None):
    """A function that gives the time limit of a job, or of one for a band of a stage, minutes.

    The configured one, or a generous one.
    """

    def limit(wildcards, attempt, rulename):
        count = batch.band_count(split, wildcards) if split else 1
        pixels = batch.pixels(wildcards) / count
        expected = memory.runtime_min(pixels, seconds_per_megapixel)
        return time_limit(expected, wildcards, attempt, rulename)

    return limit


def minutes(expected):
    """A function that gives the time limit of a job, minutes: the configured or the expected."""

    def limit(wildcards, attempt, rulename):
        return time_limit(expected, wildcards, attempt, rulename)

    return limit


def minutes_beside(expected):
    """The time limit of a job that runs beside Snakemake itself, minutes."""
    return batch.settings["timeout_per_job"] or expected


def time_limit(expected, wildcards, attempt, rulename):
    """The time limit of an attempt, minutes; a batch system gives more if the last was late."""
    limit = batch.settings["timeout_per_job"] or expected
    if not launcher_mb():
        return limit
    if attempt > 1:
        limit = next_min(record_of(rulename, wildcards), limit)
    return limit + cluster.STARTING_MIN


def this_attempt(wildcards, attempt):
    """Which attempt this is, so that a second one knows that there was a first."""
    return attempt
