"""Steps at the start and at the end of a run."""

from unglow.results.wording import HOOKS, closing_sentence, has_failures
from unglow.workflow.job_graph import files_to_write, has_done


def refuse_obstacles():
    """Refuse to start where files of jobs cannot be written: Snakemake would end with a traceback."""
    found = obstacles(files_to_write(workflow))
    if found:
        conclude_run("failed")
        end_run(message_of(found))


def remove_slide_placeholders():
    """After a run: slides that were refused have no corrected image, not even an empty one."""
    if batch.slides:
        from unglow.slides.rules import remove_placeholders

        remove_placeholders(Path(RESULTS), batch.slides)


def refresh_summary(starts=False):
    """Bring the table of all pairs up to date, after a failed run too; return its rows and text.

    As a run starts as well, so that one that is killed leaves nothing that looks new.
    """
    from unglow.results.summary import entries_from, write_summary
    from unglow.results import verdict

    target = Path(RESULTS, "summary.tsv")
    if not target.parent.is_dir():
        return [], ""
    try:
        entries = outdated.summary_entries(batch, {}, LOGS, in_run=False)
        if starts and not any(entry["outdated"] for entry in entries):
            return [], ""
        rows = write_summary(
            entries_from(entries),
            job_params.summary_problems(batch, {}),
            target.parent,
            target,
        )
    except UnglowError as error:
        unwritten.append(str(error))
        return [], ""
    # rows of what `only` leaves aside say nothing about this run
    others = {*batch.others}
    names = [{(row["sample"], row["dye"]), (row["sample"], "")} for row in rows]
    rows = [row for row, own in zip(rows, names) if not own & others]
    return rows, f"{target}: {verdict(rows).strip()}"


def refresh_report():
    """After a run, and after a failed one too: a page that shows everything."""
    from unglow.pages.report.report import write_report

    place = Path(RESULTS)
    if place.is_dir():
        ending = None if run_recorder is None else run_recorder.outcome
        try:
            page = write_report(place, ending=ending)
            text = f"{page}: open it in a browser."
            logger.info(text, extra={"ending": True})
        except UnglowError as error:
            unwritten.append(
                f"{error}\nThe results are not affected; `unglow report {place}` writes the report."
            )


unwritten = []
"""Sentences about files that could not be written at the end of the run."""


def remember_times():
    """After a run: how long its jobs took, for forecasts of later ones; it never spoils a run."""
    if run_recorder is not None:
        try:
            from unglow.workflow.forecast import remember_run

            place = Path(RESULTS)
            remember_run(place, run_recorder.run_id, batch, executor_elsewhere())
        except Exception as error:
            logger.debug(f"the times of this run are not kept ({error}).")


def finish_run(outcome):
    """Update summary and report; end with exit status 1 and a sentence if something is missing."""
    conclude_run(outcome)
    remove_slide_placeholders()
    rows, text = refresh_summary()
    judged = outcome == "ok" and has_done(workflow, VERDICT)
    refused = judged and has_failures(rows) and not batch.settings.allow_failed
    ends_well = outcome == "ok" and not refused
    if ends_well:
        logger.info(text, extra={"ending": True})
    refresh_report()
    remember_times()
    if ends_well:
        if unwritten:
            end_run("\n".join(unwritten))
        return
    if refused:  # so that the next run judges again
        for file in ("verdict.txt", "details/digests/verdict.sha256"):
            Path(RESULTS, file).unlink(missing_ok=True)
    failed = any(row["status"] == "failed" for row in rows)
    closing = closing_sentence(
        run_recorder.outcome if run_recorder else outcome,
        any_failed=failed,
        skipped=len(batch.problems),
    )
    workflow.logger_manager.logfile_hint()
    level = logging.ERROR if failed or outcome == "failed" else logging.WARNING
    end_run("\n".join([text, *unwritten, closing]).strip(), level, {"ending": True})
