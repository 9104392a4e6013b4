"""Where this copy of unglow keeps what Snakemake reads: Snakefile, rules, scripts, profiles."""

from __future__ import annotations

import sys
from pathlib import Path

OWN = Path(".unglow")
"""What unglow keeps in a working directory: records of other workflows, the app's log, locks."""

COMMAND = (sys.executable, "-Pm", "unglow")
"""The start of our own command; -P: what happens to lie in the directory is no library."""


def is_foreign(results: Path) -> bool:
    """Whether a directory holds records of another workflow, which knows no pairs."""
    return results.absolute().name == OWN.name


def workflow_directory() -> Path:
    """Return the directory of the Snakefile.

    A wheel holds a copy of these files below the package; an editable installation has them in
    its checkout.
    """
    package = Path(__file__).resolve().parents[1]
    packed = package / "snakefile"
    return packed if packed.is_dir() else package.parents[1]


def snakefile() -> Path:
    """Return the Snakefile of this copy of unglow; whether it is there is not looked at."""
    return workflow_directory() / "Snakefile"
