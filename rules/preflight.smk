"""Preflight: before the first job, does what is missing fit memory and disk? See docs/memory.md."""

from unglow.jobs.snakemake_command import only_looks, snakemake_words
from unglow.workflow.preflight import (
    FORCE,
    PLANNED_PER_S,
    Level,
    check,
    messages,
    too_many_jobs,
)
from unglow.workflow.pending_jobs import (
    RuleSettings,
    capacity_for,
    pending_jobs,
)
from unglow.workflow.snakemake_internals import limit_of, require_command_line
from unglow.workflow.stage_table import STAGES

LIMITS = ("--cores", "mem_mb of --resources", "disk_streams of --resources")


def asked_for(options):
    """The pairs and slides whose files are asked for (None for all), and whether that may be only a part."""
    everything = {
        workflow.modifier.modify_rulename("all"),
        *(workflow.pathvars.apply(out.run(n)) for n in ("summary.tsv", "verdict.txt")),
    }
    partly = bool(
        options.until or options.omit_from or options.batch or options.allowed_rules
    )
    if not options.targets or everything & set(options.targets):
        return None, partly
    results = Path(workflow.pathvars.apply("<results>"))
    pairs = set()
    for target in options.targets:
        path = Path(target)
        parts = path.relative_to(results).parts if path.is_relative_to(results) else ()
        key = (parts[0], "") if parts[:1] and parts[0] in batch.slides else parts[:2]
        if key not in batch.keys:
            return None, True
        pairs.add(key)
    return pairs, partly


def rules_as_set():
    """Threads and memory of the rules, as --set-threads and --set-resources have changed them."""
    threads, mem_mb = {}, {}
    most = workflow.resource_settings.max_threads
    for name in STAGES:
        renamed = workflow.modifier.modify_rulename(name)
        # a workflow that uses this one as a module may leave rules out
        if not workflow.is_rule(renamed):
            continue
        resources = workflow.get_rule(renamed).resources
        for key, settings in (("_cores", threads), ("mem_mb", mem_mb)):
            if not resources[key].is_evaluable():
                settings[name] = resources[key].value
        if most is not None:
            threads[name] = min(threads.get(name, most), most)
    return RuleSettings(threads, mem_mb)


def forecast_of(jobs, capacity, executor):
    """How long the jobs will take, here or where an ``executor`` has them; None if there are none."""
    from unglow.workflow.forecast import (
        Throughput,
        file_of_machine,
        forecast,
        read_runs,
    )

    throughput = Throughput(read_runs(file_of_machine(executor)))
    budget = batch.settings.memory_per_job
    return forecast(jobs, capacity, budget, throughput, len(batch.keys))


def preflight():
    """Print what is found; raise if a real run does not fit and was not forced.

    Returns how long it will take, as far as that is known.
    """
    options = require_command_line()
    if options is not None and only_looks(options):
        return None
    # Not started by the command: what is going to be done cannot be known, so nothing is refused.
    only, partly = (None, True) if options is None else asked_for(options)
    results = Path(workflow.pathvars.apply("<results>"))
    again = options is not None and options.forceall
    jobs = pending_jobs(batch, results, rules_as_set(), only, again=again)
    sentence = None if partly or is_forced() else too_many_jobs(len(jobs))
    if sentence is not None:  # of a dry run as well, which plans them too
        end_run(sentence)
    if len(jobs) > 10 * PLANNED_PER_S:
        seconds = len(jobs) // PLANNED_PER_S
        logger.info(f"{len(jobs)} jobs: Snakemake plans them for {seconds} s or more.")
    local = options is None or options.executor in ("local", "dryrun", "touch")
    limits = [limit_of(workflow, name) for name in ("_cores", "mem_mb", "disk_streams")]
    for option, limit in zip(LIMITS, limits):
        if limit is not None and limit < 1:
            end_run(f"{option} is {limit}, but has to be at least 1.")
    capacity = capacity_for(jobs, *limits, local=local)
    result = check(jobs, capacity, batch.settings.memory_per_job)
    expected = forecast_of(jobs, capacity, None if local else options.executor)
    dry = workflow.output_settings.dryrun
    lines = messages(
        result,
        snakemake_words(sys.argv),
        Level.FINE if dry else Level.WARNING,
        takes=takes(expected, partly),
        in_module=workflow.modifier.parent_modifier is not None,
    )
    if lines:
        report_findings(result.level, len(jobs), lines, dry, partly)
    return None if partly else expected


def is_forced():
    """Whether the configuration turns refusals into warnings."""
    # A module does not see --config, which is how the suggestion is made.
    asked = workflow.config_settings.config.get(FORCE, False)
    return batch.settings.force_run or str(asked).lower() == "true"


def takes(expected, partly):
    """How long it takes, in words; of what is not asked for as well, if that is only a part."""
    if expected is None:
        return ""
    return ("if everything is computed, " if partly else "") + expected.words()


def report_findings(level, jobs, lines, dry, partly):
    """Print the lines as loud as it is bad; raise if this is a refusal."""
    if level < Level.REFUSED:
        head = f"{jobs} jobs to do:"
        say = logger.info if level == Level.FINE else logger.warning
    elif dry:
        say, head = logger.warning, "a real run would be refused:"
    elif is_forced():
        say, head = logger.warning, f"too much, but {FORCE} is set:"
    elif partly:
        say, head = logger.warning, "too much if everything is computed:"
    else:
        say, head = None, "too much, so nothing was started:"
    text = "\n".join([f"preflight: {head}", *lines])
    if say is None:
        end_run(text)
    say(text)


run_forecast = preflight() if workflow.is_main_process else None
