"""unglow: remove autofluorescence from microscopy images, in a memory budget of your choice."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unglow.core.errors import UnglowError
    from unglow.monitor.measure import measure
    from unglow.photometry.difference import open_difference
    from unglow.results.directory import open_results
    from unglow.results.runs import list_runs, open_run
    from unglow.results.start import run, subtract
    from unglow.telemetry.recording import span

__version__ = "0.1.0"

__all__ = [
    "UnglowError",
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


def __dir__() -> list[str]:
    """Return the public names, imported or not: what the Tab key offers."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import what others call only when they ask for it: jobs and commands start quickly."""
    if name not in __all__:
        raise AttributeError(f"module 'unglow' has no attribute '{name}'")
    found: Any
    if name in ("open_run", "list_runs"):
        from unglow.results import runs

        found = getattr(runs, name)
    elif name in ("run", "subtract"):
        from unglow.results import start

        found = getattr(start, name)
    elif name == "open_results":
        from unglow.results.directory import open_results as found
    elif name == "open_difference":
        from unglow.photometry.difference import open_difference as found
    elif name == "measure":
        from unglow.monitor.measure import measure as found
    elif name == "UnglowError":
        from unglow.core.errors import UnglowError

        found = UnglowError
    else:
        from unglow.telemetry.recording import span as found
    return found
