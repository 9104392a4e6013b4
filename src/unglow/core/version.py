"""The version of unglow."""

__version__ = "0.1.0"
