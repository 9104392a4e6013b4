"""unglow: remove autofluorescence from microscopy images, in a memory budget of your choice."""

from importlib import import_module

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "list_runs",
    "measure",
    "open_difference",
    "open_results",
    "open_run",
    "run",
    "span",
    "subtract",
]
_MODULES = {
    "open_difference": "unglow.photometry.difference",
    "open_results": "unglow.results.directory",
    "open_run": "unglow.reporting.runs",
    "list_runs": "unglow.reporting.runs",
    "measure": "unglow.jobs.outside.measure",
    "run": "unglow.results.start",
    "subtract": "unglow.results.start",
    "span": "unglow.telemetry.recording",
}


def __getattr__(name: str) -> object:
    """Import what others call only when they ask for it: jobs and commands start quickly."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'unglow' has no attribute '{name}'")
