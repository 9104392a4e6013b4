"""unglow: take the autofluorescence out of microscopy images, in a memory budget of your choice."""

from unglow.core.version import __version__

__all__ = ["__version__", "open_difference", "span"]


def __getattr__(name: str) -> object:
    """Import what others call only when they ask for it: jobs and commands start quickly."""
    if name == "open_difference":
        from unglow.photometry.difference import open_difference  # noqa: PLC0415

        return open_difference
    if name == "span":
        from unglow.telemetry.recording.span import span  # noqa: PLC0415

        return span
    raise AttributeError(f"module 'unglow' has no attribute '{name}'")
