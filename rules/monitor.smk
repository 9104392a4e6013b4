"""At a terminal: status lines below Snakemake's own while it runs, see docs/monitor.md."""

from unglow.reporting.terminal.status_handler import StatusHandler, is_wanted


def watch_run():
    """Have the lines shown for a real run, unless another logger draws on the terminal."""
    settings = workflow.output_settings
    quiet = [kind.name.lower() for kind in settings.quiet or ()]
    another = bool(settings.log_handler_settings)
    if not another and is_wanted(sys.stderr, os.environ, quiet):
        # now: in a module the names of paths mean something else later
        results = Path(workflow.pathvars.apply("<results>")).absolute()
        logger.addHandler(StatusHandler(results))


if run_recorder is not None:
    try:
        watch_run()
    except Exception as error:  # a view is no reason to end a run
        logger.warning(f"no status lines ({error!r})")
