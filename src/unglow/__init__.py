"""unglow: take the autofluorescence out of microscopy images, in a memory budget of your choice."""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import what others call only when they ask for it: jobs and commands start quickly."""
    if name == "open_difference":
        from unglow.difference import open_difference  # noqa: PLC0415

        return open_difference
    raise AttributeError(f"module 'unglow' has no attribute '{name}'")
