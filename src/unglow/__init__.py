"""unglow: take the autofluorescence out of microscopy images, in a memory budget of your choice."""

__version__ = "0.1.0"
