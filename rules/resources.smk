"""Resources of jobs: memory, disk, time, and which of them are one job of a batch system."""

from snakemake.io import apply_wildcards

from unglow.jobs.retries import next_mb, next_min
from unglow.jobs import launcher
from unglow.memory import to_json as demand_to_json
from unglow.workflow import job_resources

# Variants of a pair whose jobs are one job of a batch system.
MOST_GROUPED = 20
threads_of = job_resources.choose_threads(batch)
# Raised where the results of a stage change.
version_of = {rule: given.version for rule, given in outdated.GIVEN.items()}


def launcher_mb():
    """Memory that starting a job takes in addition, MB: 0 unless a batch system runs it elsewhere."""
    if workflow.remote_exec:
        return launcher.launcher_mb(None, os.environ)
    executor = executor_elsewhere()
    return launcher.launcher_mb(executor, os.environ) if executor else 0


def executor_elsewhere():
    """The name of what hands jobs to other machines; None if they run on this one."""
    return name_executor(workflow)


def record_of(rulename, wildcards):
    """The telemetry file of a job."""
    return Path(apply_wildcards(workflow.get_rule(rulename).log.telemetry, wildcards))


def mem_mb(rule, in_main=False):
    """A function that predicts the peak memory of a job, MB, from headers and budget.

    Jobs of rules that always run in Snakemake's place need no launcher.
    """

    def predicted(wildcards, threads, attempt, rulename):
        declared = job_resources.mem_mb(batch, rule, wildcards, threads)
        if attempt > 1:
            declared = next_mb(record_of(rulename, wildcards), declared)
        return declared + (0 if in_main else launcher_mb())

    return predicted


def memory(rule):
    """A function that gives a job its memory demand, by which it chooses its workers.

    Parameters whose functions take resources rerun nothing when they change.
    """

    def demand(wildcards, resources):
        given = resources.mem_mb - launcher_mb()
        return demand_to_json(job_resources.demand_of(batch, rule, wildcards, given))

    return demand


def at_a_time(rule):
    """A function that gives how many channels a job of a slide works on at a time."""

    def channels(wildcards, resources):
        from unglow.slides.resources import choose_channel_count

        given = resources.mem_mb - launcher_mb()
        return choose_channel_count(
            batch.slides[wildcards.sample], batch.settings, rule, given
        )

    return channels


def runtime(rule):
    """A function that gives the time limit of a job, minutes: the configured one, or a generous one."""

    def limit(wildcards, attempt, rulename):
        expected = job_resources.runtime_min(batch, rule, wildcards)
        return time_limit(expected, wildcards, attempt, rulename)

    return limit


def runtime_in_main(rule):
    """The time limit of a job that runs in the main Snakemake process, minutes."""
    expected = job_resources.runtime_min(batch, rule, {})
    return batch.settings.timeout_per_job or expected


def time_limit(expected, wildcards, attempt, rulename):
    """The time limit of an attempt, minutes; a batch system gives more if the last was late."""
    limit = batch.settings.timeout_per_job or expected
    if not launcher_mb():
        return limit
    if attempt > 1:
        limit = next_min(record_of(rulename, wildcards), limit)
    return limit + launcher.STARTING_MIN


def resources(rule, in_main=False):
    """The resources of a job of a rule, by name; `in_main` where it runs in the main Snakemake process."""
    asked = dict(
        mem_mb=mem_mb(rule, in_main=in_main),
        disk_mb=partial(job_resources.disk_mb, batch, rule),
        runtime=runtime_in_main(rule) if in_main else runtime(rule),
        attempt=this_attempt,
    )
    return {**asked, **({"disk_streams": 1} if STAGES[rule].streams else {})}


def this_attempt(wildcards, attempt):
    """Which attempt this is, so that a second one knows that there was a first."""
    return attempt


def pair_group(wildcards):
    """On a batch system: one job for all jobs of a small pair; None for a large one.

    None with many variants too: Snakemake compares all jobs of a group with all others.
    """
    if batch.variant_count > MOST_GROUPED:
        return None
    if batch.pixels(wildcards) > launcher.SMALL_PX:
        return None
    return f"{wildcards.sample}.{wildcards.dye}"


def figures_group(wildcards):
    """On a batch system: one job for the figures of a large pair; with the rest of a small one."""
    name = f"{wildcards.sample}.{wildcards.dye}"
    return pair_group(wildcards) or f"{name}.figures"


def reserve_launcher_memory():
    """On a node: reserve the part of a job's declared memory that its launcher needs."""
    if workflow.remote_exec:
        os.environ[launcher.LAUNCHER_MB] = str(launcher_mb())
