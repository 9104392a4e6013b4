"""The package that rules import, and how a run is refused: by its sentence alone."""

import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import MagicMock

from snakemake.logging import logger

# Of what unglow requires and Snakemake does not, the libraries that rules load while they are read.
LIBRARIES = ("imagecodecs", "msgspec", "numpy", "tifffile")


silent = any(kind.name == "ALL" for kind in workflow.output_settings.quiet or ())


def end_run(text, level=logging.ERROR, more=None):
    """End with exit status 1 and a text; Snakemake would frame that of an exception."""
    if find_spec("unglow") is not None:
        from unglow.core.printable import printable

        text = printable(text)  # names of files in it cannot act on the terminal
    logger.log(level, text, extra=more)
    if silent and not workflow.output_settings.dryrun and workflow.is_main_process:
        print(text, file=sys.stderr)
    sys.exit(1)


missing = [name for name in ("unglow", *LIBRARIES) if find_spec(name) is None]
not_installed = (
    f"The Python package {missing[0]} is not installed for {sys.executable}: run 'pip install .' "
    "in the checkout of the workflow."
    if missing
    else ""
)
if "unglow" in missing:
    checkout = Path(workflow.basedir) / "src"
    if not (checkout / "unglow").is_dir():
        end_run(not_installed)
    sys.path.append(str(checkout))

from unglow.jobs.snakemake_command import LISTING, has_option

rules_only = has_option(sys.argv, LISTING)
if missing and not rules_only:
    end_run(not_installed)
# To list or check rules nothing is computed, so that Snakemake alone is enough.
sys.modules.update({name: MagicMock() for name in missing if name != "unglow"})
if (
    "msgspec" in missing
):  # classes are made from it, and of settings the defaults are enough
    empty = {"__init_subclass__": classmethod(lambda _kind, **_more: None)}
    sys.modules["msgspec"].Struct = type("Struct", (), empty)
    sys.modules["msgspec"].convert = lambda _values, kind: kind()
