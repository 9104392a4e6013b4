"""Telemetry of the run itself: one file for each real run, see docs/telemetry.md."""

import shlex

from unglow.core.records import to_plain
from unglow.jobs.outcomes import COMMAND
from unglow.monitor.outside.recorder import OutsideRecorder
from unglow.jobs.launcher import announce
from unglow.jobs.lost_jobs import LostJobs
from unglow.jobs.snakemake_command import only_looks, snakemake_words
from unglow.telemetry import attempt_files
from unglow.telemetry.recording import profiler
from unglow.telemetry.recording.run import RunRecorder, computing
from unglow.workflow.job_graph import list_planned
from unglow.workflow.snakemake_internals import (
    describe_run,
    hides_finished_jobs,
    quiet_kinds,
)

is_quiet = hides_finished_jobs(quiet_kinds(workflow.output_settings))


def record_run():
    """Have a real run write its file; None for a call that computes nothing."""
    looks = only_looks(sys.argv) or workflow.output_settings.dryrun
    if looks or not workflow.is_main_process:
        return None
    os.environ[COMMAND] = shlex.join(snakemake_words(sys.argv))
    # now: in a module the names of paths mean something else later
    place = Path(workflow.pathvars.apply("<telemetry>/runs")).absolute()
    results = workflow.pathvars.apply("<results>")
    recorder = RunRecorder(
        place,
        attempt_files.start_run(),
        lambda: head_of_run(results),
        lambda: list_planned(workflow, recorder.is_recorded),
        jobs_elsewhere,
    )
    # rules of a workflow that uses this one as a module do not measure themselves
    logger.addHandler(OutsideRecorder(recorder, is_quiet=is_quiet))
    logger.addHandler(recorder)
    return recorder


def jobs_elsewhere():
    """An object that follows the jobs of a batch system; None if jobs run on this machine."""
    taken = launcher_mb()
    return LostJobs(taken) if taken else None


def head_of_run(results):
    """Facts about the run when its first job is about to start."""
    chosen = {key: pair for key, pair in batch.pairs.items() if key in batch.keys}
    slides = job_params.slide_markers(batch)
    expected = None if preflight.expected is None else preflight.expected.record()
    return {
        **describe_run(workflow, results),
        **computing(),
        "config": to_plain(batch.settings),
        "pairs": [list(key) for key in chosen],
        "groups": [dict(pair.groups) for pair in chosen.values()],
        **({"slides": slides} if slides else {}),
        "left_out": [problem.message for problem in batch.problems],
        **({} if expected is None else {"expected": expected}),
    }


def show_run():
    """Give the batch to unglow's output."""
    facts = {
        # now: in a module the names of paths mean something else later
        "results": Path(workflow.pathvars.apply("<results>")).absolute(),
        "pairs": [*batch.keys],
        "problems": [problem.message for problem in batch.problems],
    }
    for handler in workflow.logger_manager.get_log_handlers():
        if hasattr(handler, "attach"):
            handler.attach(**facts)


def profile_jobs():
    """Set for the jobs, which inherit it, whose stacks are wanted."""
    rules = batch.settings.profile
    if rules:
        os.environ[profiler.VARIABLE] = "all" if rules is True else ",".join(rules)
        os.environ[profiler.INTERVAL] = str(batch.settings.profile_interval_ms)


def conclude_run(outcome):
    """Write into the run's file how the run ends."""
    if run_recorder is not None:
        run_recorder.conclude(outcome)


def refuse_late_job():
    """End a queued job of a run that was killed, before Snakemake removes what a later one has made."""
    newer = attempt_files.find_newer_run(Path(workflow.pathvars.apply("<telemetry>")))
    if newer is not None:
        end_run(f"This job belongs to an older run: run {newer} has started since.")


if not workflow.is_main_process:
    refuse_late_job()
announce(in_job=not workflow.is_main_process)
run_recorder = record_run()
if workflow.is_main_process:
    try:
        show_run()
    except Exception as error:  # a view is no reason to end a run
        logger.warning(f"no lines about pairs ({error!r})")
profile_jobs()
reserve_launcher_memory()

if run_recorder is not None:

    envvars:  # also where a batch system does not export the environment
        attempt_files.RUN_ID,


if (
    workflow.modifier.parent_modifier is None
):  # scripts of another workflow may rely on it
    # Python would look for modules among Snakemake's copies of scripts, and a batch job in the
    # working directory: what lies there may come from somebody else.
    os.environ["PYTHONSAFEPATH"] = "1"

    envvars:
        "PYTHONSAFEPATH",
