"""Where this copy of unglow keeps what Snakemake reads: Snakefile, rules, scripts, profiles."""

from __future__ import annotations

from pathlib import Path

FOREIGN = Path(".snakemake/unglow")
"""Where records of runs of other workflows are, in their working directory."""


def is_foreign(results: Path) -> bool:
    """Whether a directory holds records of another workflow, which knows no pairs."""
    return results.absolute().parts[-len(FOREIGN.parts) :] == FOREIGN.parts


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
