"""unglow: register pre onto post, subtract the autofluorescence, keep the evidence.

Stages are one rule file each; what a run consists of (pairs, headers, memory) is known when this
file has been read. Needs nothing but raw/ in the working directory; config/config.yaml is optional.
"""

from snakemake.utils import min_version

min_version("9.17.1")


include: "rules/installation.smk"


from unglow.core.errors import UnglowError
from unglow.workflow.config import CONFIG, read_stored

try:
    # a module has its configuration from the workflow that uses it
    own_config = not workflow.modifier.skip_configfile and bool(read_stored(CONFIG))
except UnglowError as error:
    end_run(str(error))

if own_config:

    configfile: "config/config.yaml"


include: "rules/common.smk"
include: "rules/resources.smk"
include: "rules/handlers.smk"


# Of a pair, <pair>, <ingested>, <registered>, <subtracted> and <detected> are one folder; a swept
# level has one for each variant, and the levels behind it are below.
pathvars:
    **out.pathvars,
    results=batch.settings.results,
    benchmarks="<results>/benchmarks",
    telemetry="<results>/telemetry",


wanted = final_outputs(batch)


include: "rules/preflight.smk"  # its handler comes before that which records the run
include: "rules/telemetry.smk"


of_pairs = {
    "sample": one_of(sample for sample, _ in batch.pairs),
    "dye": one_of(dye for _, dye in batch.pairs),
}


wildcard_constraints:
    **of_pairs,
    **{level: one_of(made) for level, made in batch.variants.items()},
    role=one_of(ROLES),
    method=one_of(METHODS),
    form=one_of(FORMS.values()),


report: "report/workflow.rst"


container: batch.settings.container


rule all:
    default_target: True
    input:
        wanted,


include: "rules/ingest.smk"
include: "rules/register.smk"
include: "rules/align.smk"
include: "rules/scale.smk"
include: "rules/difference.smk"
include: "rules/detect.smk"
include: "rules/snr.smk"


# Snakemake compares each file with all rules: those without a job are left out.
if rules_only or batch.settings.exports.tiff or batch.settings.exports.fits:

    include: "rules/export.smk"


include: "rules/figures.smk"


if rules_only or batch.slides:

    include: "rules/slides.smk"

    # once more: rules do not see them for wildcards in pathvars, and a slide has maps as pairs have
    wildcard_constraints:
        **of_pairs,


include: "rules/summary.smk"


onstart:
    preflight.judge()
    refuse_obstacles()
    refresh_summary(starts=True)
    os.environ[HOOKS] = "1"
    start_jobs_at_once(workflow)
    give_up_lost_jobs(workflow, logger.warning)


onsuccess:
    finish_run("ok")


onerror:
    finish_run("failed")
