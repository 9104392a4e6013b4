"""What is done when a run begins and ends."""

import asyncio

from unglow.jobs.slurm import client


def refuse_obstacles():
    """Refuse to start where files of jobs cannot be written: Snakemake would end with a traceback."""
    files = [
        Path(path)
        for job in workflow.dag.needrun_jobs()
        for path in (*job.output, *job.log, *([job.benchmark] if job.benchmark else []))
    ]
    found = obstacles(files)
    if found:
        conclude_run("failed")
        raise refusal(in_words(found))


def start_jobs_at_once():
    """On this machine alone: lift Snakemake's limit of jobs started per second (100 by default).

    No option switches it off. To keep it, each job that ends sets off one more timer that wakes the
    scheduler every second as long as jobs wait: after some hundred jobs Snakemake itself takes a
    whole core. The last timer keeps it from ending for up to a second.
    """
    scheduler = workflow.scheduler
    if workflow.local_exec and getattr(scheduler, "job_rate_limiter", None) is not None:
        scheduler.job_rate_limiter = None


def look_often():
    """On a batch system: look how jobs are at least every `client.LOOK_S`.

    The executor of Slurm waits 10 s longer after each look that found no job done, up to three
    minutes, and has no option for that: a short job would wait for its turn longer than it runs.
    """
    executor = getattr(workflow.scheduler, "_executor", None)
    if hasattr(executor, "next_seconds_between_status_checks"):

        async def rest():
            seconds = executor.next_seconds_between_status_checks
            await asyncio.sleep(min(seconds, client.LOOK_S))

        executor.sleep = rest


def bear_with_slurm():
    """With Slurm: wait for a controller that is away, and never wait in vain (`client.Watch`).

    Its executor counts a job that could not be handed over as one that failed, and waits without
    end for jobs that were preempted or that nobody knows any more.
    """
    plugin = workflow.executor_plugin
    executor = getattr(workflow.scheduler, "_executor", None)
    if plugin is None or plugin.name != "slurm" or executor is None:
        return
    submit, check, watch = executor.run_job, executor.check_active_jobs, client.Watch()

    def patiently(job):
        for sentence in watch.wait_until_slurm_answers():
            logger.warning(sentence)
        submit(job)

    async def checked(active_jobs):
        waiting = [job async for job in check(active_jobs)]
        states, news = watch.look([str(job.external_jobid) for job in waiting])
        for sentence in news:
            logger.warning(sentence)
        for job in waiting:
            state = states.get(str(job.external_jobid))
            if state is None:
                yield job
            elif state == "COMPLETED":
                executor.report_job_success(job)
            else:
                words = f"SLURM-job '{job.external_jobid}' has ended: '{state}'."
                logs = [str(job.aux["slurm_logfile"])]
                executor.report_job_error(job, msg=words, aux_logs=logs)

    executor.run_job, executor.check_active_jobs = patiently, checked


def refresh_summary():
    """After a run, and after a failed one too: what is there, and what is not, in one table."""
    from unglow.reporting.summary import entries_from, verdict, write_summary

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
            from unglow.reporting.html.report import write_report

            ending = None if run_recorder is None else run_recorder.outcome
            page = write_report(place, ending=ending)
            logger.info(f"{page}: open it in a browser.")
        except Exception as error:
            logger.warning(f"no report was written ({type(error).__name__}: {error}).")
