"""At a terminal: status lines below Snakemake's own while it runs, see docs/monitor.md."""

from unglow.monitor.beside import StatusBeside, is_wanted


def watch_run():
    """Have the lines shown for a real run, unless another logger draws on the terminal."""
    settings = workflow.output_settings
    quiet = [kind.name.lower() for kind in settings.quiet or ()]
    if run_recorder is None or settings.log_handler_settings:
        return
    if is_wanted(sys.stderr, os.environ, quiet):
        results = Path(workflow.pathvars.apply("<results>")).absolute
        logger.addHandler(StatusBeside(results))


watch_run()
