"""Preflight: before the first job, does what will run fit memory and disk? See docs/memory.md."""

import json

from unglow.core.printable import PREFLIGHT, say
from unglow.workflow.forecast import Throughput, file_of_machine, forecast, read_runs
from unglow.workflow.job_graph import GraphHandler, limit_of, read_capacity, read_jobs
from unglow.workflow.planned_jobs import jobs_of
from unglow.workflow.preflight import (
    FORCE,
    MOST_JOBS,
    Level,
    check,
    compare_settings,
    describe_reasons,
    describe_refusal,
    format_settings,
    messages,
    to_record,
    too_many_jobs,
    worst,
)

LIMITS = {
    "_cores": "--cores",
    "mem_mb": "mem_mb of --resources",
    "disk_streams": "disk_streams of --resources",
}
# now: in a module the names of rules mean something else later
own_names = {workflow.modifier.modify_rulename(name): name for name in STAGES}


def check_call():
    """Refuse limits that are none, and more jobs than Snakemake plans within minutes."""
    for name, option in LIMITS.items():
        limit = limit_of(workflow, name)
        if limit is not None and limit < 1:
            end_run(f"{option} is {limit}, but has to be at least 1.")
    if len(wanted) > MOST_JOBS and not is_forced():
        sentence = too_many_jobs(sum(len(jobs_of(batch, *key)) for key in batch.keys))
        if sentence is not None:
            end_run(sentence)


def is_forced():
    """Whether the configuration turns refusals into warnings."""
    # A module does not see --config.
    asked = workflow.config_settings.config.get(FORCE, False)
    return batch.settings.force_run or str(asked).lower() == "true"


def describe(name, wildcards, missing):
    """What is known of a job by its name in this workflow; None for a job of another workflow."""
    if name not in own_names:
        return None
    return job_resources.describe_job(
        batch, own_names[name], wildcards, launcher_mb(), missing=missing
    )


def judge():
    """Report what Snakemake is about to do, and end if it does not fit; return its forecast."""
    if workflow.touch:
        return None
    try:
        jobs = read_jobs(workflow, describe)
        capacity = read_capacity(workflow, jobs)
    except UnglowError as error:
        end_run(str(error))
    findings = check(jobs, capacity, batch.settings.memory_per_job)
    throughput = Throughput(read_runs(file_of_machine(executor_elsewhere())))
    expected = forecast(jobs, capacity, throughput, len(batch.keys))
    asked = os.environ.get(PREFLIGHT)
    if asked == "json":
        print_record(jobs, capacity, findings, expected, throughput)
    if jobs:
        table = compare(jobs, capacity, throughput) if asked == "settings" else []
        report_findings(jobs, findings, expected, table)
    return expected


def compare(jobs, capacity, throughput):
    """What a run takes with other settings."""
    budget = batch.settings.memory_per_job
    return compare_settings(jobs, capacity, budget, throughput, len(batch.keys))


def print_record(jobs, capacity, findings, expected, throughput):
    """Print what was found as JSON, and end: exit status 1 if a run would be refused."""
    refused = worst(findings) == Level.REFUSED and not is_forced()
    others = compare(jobs, capacity, throughput) if jobs else []
    record = {
        **to_record(jobs, capacity, findings, expected, others),
        "refused": refused,
        "memory_per_job": batch.settings.memory_per_job,
        "skipped": [
            {"sample": p.sample, "dye": p.dye, "message": p.message}
            for p in batch.problems
        ],
    }
    say(json.dumps(record, indent=1))
    sys.exit(int(refused))


def report_findings(jobs, findings, expected, table):
    """Print findings as loud as they are bad; end if this is a refusal."""
    level, dry = worst(findings), workflow.output_settings.dryrun
    if dry:
        takes = "" if expected is None else expected.words()
        lines = messages(findings, takes=takes, reasons=describe_reasons(jobs))
        lines += format_settings(table).splitlines() if table else []
    else:
        lines = messages(findings, Level.WARNING)
    if lines and (dry or level == Level.WARNING):
        log = logger.warning if level == Level.WARNING else logger.info
        log("\n".join([f"preflight: {len(jobs)} jobs to do:", *lines]))
    if level == Level.REFUSED:
        sentence = f"preflight: refused: {describe_refusal(findings)}"
        if not is_forced():
            end_run(sentence)
        logger.warning(
            sentence.replace("refused", f"{FORCE} is set, so not refused", 1)
        )


preflight = GraphHandler(judge)
if workflow.is_main_process:
    check_call()
    logger.addHandler(preflight)
