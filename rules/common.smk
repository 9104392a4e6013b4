"""Shared by all stages: the batch, and what rules ask it for."""

import json
import re
from functools import partial

from snakemake import __version__ as snakemake_version
from snakemake.settings.types import DeploymentMethod

import unglow
from unglow.core.errors import UnglowError
from unglow.core.machine import existing, memory_available_mb
from unglow.core.printable import printable
from unglow.jobs.run_records import was_killed
from unglow.jobs.snakemake_command import (
    PARTLY,
    has_option,
    message_of,
    obstacles,
    only_looks,
)
from unglow.photometry.gain.scale import METHODS
from unglow.wings import SLIDES
from unglow.workflow import job_params, outdated
from unglow.workflow.batch import Batch
from unglow.workflow.planned_jobs import final_outputs
from unglow.workflow.job_graph import limit_of
from unglow.workflow.oversized import leave_out, skip_oversized
from unglow.images.pair_plan import ROLES
from unglow.workflow.samples.naming import one_of
from unglow.workflow.snakemake_internals import (
    give_up_lost_jobs,
    name_executor,
    start_jobs_at_once,
    unknown_version,
)
from unglow.workflow.stage_table import FORMS, STAGES, figures_of

VERSION = "0.1.0"
# Pairs that the main process skips: jobs on other nodes do not know what is available there.
LEFT_OUT = "UNGLOW_LEFT_OUT"

if unglow.__version__ != VERSION:
    end_run(
        f"this is the workflow of unglow {VERSION} but the installed package is "
        f"{unglow.__version__}: install the package from the same checkout or tag."
    )
if workflow.is_main_process and (newer := unknown_version(snakemake_version)):
    logger.warning(newer)

# A provider would keep `zarr.json` of a store alone.
provider = workflow.storage_settings.default_storage_provider
if provider is not None:
    end_run(
        f"the storage provider '{provider}' would lose all pixels (a store is a folder): leave out "
        "--default-storage-provider."
    )

if workflow.modifier.path_modifier.prefix:
    end_run(
        "unglow is used as a module with `prefix:`, which would rename raw images too: leave it out "
        "and set the config key 'results'."
    )

# Snakemake formats the one, and looks for its locks in the other with a pattern.
for whose, path, braces in (
    ("workflow's", str(workflow.basedir), r"[{}]"),
    ("working", os.getcwd(), r"\{\s*[.\w]+\s*[,}]"),
):
    if re.search(braces, path):
        end_run(
            f"the {whose} directory is {path}, whose braces Snakemake would fill in: rename it."
        )

try:
    if rules_only:
        batch = Batch.without_images(config)
    else:
        watched = workflow.is_main_process and not silent
        batch = Batch.load(config, slide_rules=SLIDES, is_watched=watched)
except UnglowError as error:
    end_run(str(error))

if DeploymentMethod.APPTAINER in workflow.deployment_settings.deployment_method:
    image = batch.settings.container
    if image is None or not ("://" in image or Path(image).exists()):
        end_run(
            f"{'no image is named' if image is None else f'there is no image {image}'} for jobs to "
            "run in: build one (`apptainer build unglow.sif containers/unglow.def` in a checkout) and add "
            "`--config container=PATH/unglow.sif`."
        )


def without_oversized(batch):
    """The batch without what cannot fit by itself, where all of it is to be computed."""
    # preflight judges what is asked for by itself
    named = any(
        f"{batch.settings.results}/{'/'.join(filter(None, key))}/" in w
        for key in batch.keys
        for w in sys.argv
    )
    partly = named or has_option(sys.argv, PARTLY)
    in_module = workflow.modifier.parent_modifier is not None
    if partly or in_module or only_looks(sys.argv) or batch.settings.force_run:
        return batch
    here = (
        workflow.resource_settings.nodes is None
    )  # else jobs may run on other machines
    return skip_oversized(
        batch,
        Path(batch.settings.results),
        limit_of(workflow, "mem_mb"),
        memory_available_mb() if here else None,
    )


if workflow.is_main_process:
    batch = without_oversized(batch)
    too_large = [
        (p.sample, p.dye or "") for p in batch.problems if p.kind == "oversized"
    ]
    os.environ[LEFT_OUT] = json.dumps(too_large)
else:
    keys = json.loads(os.environ.get(LEFT_OUT, "[]"))
    batch = leave_out(batch, {tuple(key) for key in keys})


envvars:
    LEFT_OUT,


out = batch.outputs

if workflow.is_main_process:
    for problem in batch.problems:
        logger.warning(printable(f"skipped: {problem.message}"))
    for sentence in (*job_params.idle_controls(batch), *batch.notes):
        logger.warning(printable(sentence))
    writable = existing(Path(batch.settings.results))
    if not os.access(writable, os.W_OK | os.X_OK):
        logger.warning(
            f"{writable} cannot be written, so nothing new can be computed: fix its permissions or "
            "set another directory with --config results=DIRECTORY."
        )
    # Snakemake keeps its notes there, also for a dry run.
    notes = obstacles(Path(".snakemake") / name for name in ("locks/x", "metadata/x"))
    if notes:
        end_run(message_of(notes))
    is_locked = any(Path(".snakemake/locks").glob("*.lock"))
    if is_locked and was_killed(Path(batch.settings.results)):
        logger.warning(
            "The last run was killed and its lock is still there: `unglow resume` removes the lock "
            "and continues.",
            extra={"locked": True},
        )
    elif is_locked:
        logger.warning(
            "This directory is locked: if a run is at work here, `unglow monitor` follows it; if none "
            "is, `unglow resume` removes the lock and continues."
        )


def of_batch(function, **more):
    """A function of a job's wildcards alone, from one that is given the batch as well."""
    return partial(function, batch, **more)


def figures(rule):
    """The figures of a pair that a rule draws, with what Snakemake's own report says of them."""
    level = STAGES[rule].level
    variant = {name: f"{{{name}}}" for name in out.levels(level)[2:]}
    return {
        row.name: report(
            f"<results>/<{level}>/{row.file}",
            caption=f"../report/{row.name}.rst",
            category=row.category,
            subcategory="{sample} {dye}",
            labels={"figure": row.label, **variant},
        )
        for row in figures_of(rule, out)
    }
