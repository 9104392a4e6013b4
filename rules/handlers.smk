"""What is done when a run begins and ends."""


def refuse_obstacles():
    """Refuse to start where files of jobs cannot be written: Snakemake would end with a traceback."""
    files = []
    for job in workflow.dag.needrun_jobs():
        # of a directory, what is to lie in it
        files += [Path(one, "x" if one.is_directory else "") for one in job.output]
        files += [Path(one) for one in (*job.log, job.benchmark) if one]
    found = obstacles(files)
    if found:
        conclude_run("failed")
        raise refusal(message_of(found))


def remove_stumps():
    """After a run: slides that were refused have no corrected image, not even an empty one."""
    from unglow.workflow import refused_slides

    place = Path(workflow.pathvars.apply("<results>"))
    refused_slides.remove_stumps(place, batch.slides)


def refresh_summary():
    """After a run, and after a failed one too: what is there, and what is not, in one table."""
    from unglow.reporting.summary import entries_from, verdict, write_summary

    target = Path(workflow.pathvars.apply(out.run("summary.tsv")))
    if target.parent.is_dir():
        try:
            rows = write_summary(
                entries_from(job_params.summary_entries(batch, {}, LOGS)),
                job_params.summary_problems(batch, {}),
                target.parent,
                target,
            )
        except UnglowError as error:
            unwritten.append(str(error))
            return
        logger.info(f"{target}: {verdict(rows).strip()}")


def refresh_report():
    """After a run, and after a failed one too: a page that shows everything."""
    from unglow.reporting.html.report import write_report

    place = Path(workflow.pathvars.apply("<results>"))
    if place.is_dir():
        ending = None if run_recorder is None else run_recorder.outcome
        try:
            page = write_report(place, ending=ending)
            logger.info(f"{page}: open it in a browser.")
        except UnglowError as error:
            unwritten.append(
                f"{error}\nThe results are not affected; `unglow report {place}` writes the report."
            )


unwritten = []
"""What could not be written at the end of the run, in sentences."""


def fail_if_unwritten():
    """After a run that is otherwise well: its exit status says that a file is missing."""
    if unwritten:
        raise refusal("\n".join(unwritten))


def log_unwritten():
    """After a failed run: what is missing, besides the reasons why it failed."""
    for sentence in unwritten:
        logger.error(sentence)


def remember_times():
    """After a run: how long its jobs took, for forecasts of later ones; it never spoils a run."""
    if run_recorder is not None:
        try:
            from unglow.workflow.forecast.measured import remember_run

            place = Path(workflow.pathvars.apply("<results>"))
            remember_run(place, batch, executor_elsewhere())
        except Exception as error:
            logger.debug(f"the times of this run are not kept ({error}).")
