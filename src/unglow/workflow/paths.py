"""Paths: where every file of a run lives, as patterns.

Patterns hold Snakemake's ``<results>``, ``<logs>``, ``<benchmarks>`` and the wildcards that a
rule needs; rules and commands take their paths from here, so that no path is spelled twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.core.digests import FOLDER, SUFFIX
from unglow.io.zarr.bands import PATTERN as BAND
from unglow.io.zarr.bands import Band
from unglow.io.zarr.metadata import DOCUMENT
from unglow.workflow.variants import REGISTRATION, SUBTRACTION, variants

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.workflow.schema import Settings

PAIR = "{sample}/{dye}"
ROOT = DOCUMENT
"""The file of a store that rules name: it is written last."""
FORMS = {"tiff": "ome.tif", "fits": "fits"}
"""Keys of ``exports`` in the configuration to how the files end."""
REGISTRATION_FIGURES = tuple(
    f"figures/{name}.png" for name in ("registration", "residuals", "map_error")
)
FIGURES = tuple(
    f"figures/{name}.png"
    for name in (
        *("joint_histogram", "excess_histogram", "histograms", "ratio_histogram"),
        *("difference", "difference_histogram", "methods"),
        *("candidates", "purity", "gallery"),
    )
)
"""What is drawn of a registration, and of a subtraction."""


def store(name: str) -> str:
    """Return the file that stands for a store: its root metadata, with a digest of all pixels."""
    return f"{name}.ome.zarr/{ROOT}"


def joined(output: Path) -> tuple[Path, Band | None]:
    """Return the store or file that a job works on, by its first output, and its band.

    The band is None for a job that makes all of it.
    """
    of_band = re.fullmatch(rf"\.(.+)\.({BAND})\.band\.npz", output.name)
    if of_band:
        return output.with_name(of_band[1]), Band.parse(of_band[2])
    return (output.parent if output.name == ROOT else output), None


@dataclass(frozen=True, slots=True)
class Outputs:
    """Path patterns of one run; ``registration`` and ``subtraction`` say which levels are swept."""

    registration: bool = False
    subtraction: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Outputs:
        """Return the patterns for a configuration."""
        return cls(*(variants(settings, s)[0].name != "" for s in (REGISTRATION, SUBTRACTION)))

    def directory(self, level: str) -> str:
        """Return the pattern of a directory below the results (or logs), with a slash at its end.

        Levels are ``pair``, ``registered`` and ``subtracted`` for what depends on no swept
        parameter, on those of the registration, and on those of the subtraction as well; or
        ``run``.
        """
        if level == "run":
            return ""
        registration = self.registration and level != "pair"
        subtraction = self.subtraction and level == "subtracted"
        return f"{PAIR}/{'{registration}/' * registration}{'{subtraction}/' * subtraction}"

    def file(self, level: str, name: str) -> str:
        """Return the pattern of a result of a level."""
        return f"<results>/{self.directory(level)}{name}"

    def pair(self, name: str) -> str:
        """Return the pattern of a file that every variant of a pair shares."""
        return self.file("pair", name)

    def registered(self, name: str) -> str:
        """Return the pattern of a file that depends on registration parameters."""
        return self.file("registered", name)

    def subtracted(self, name: str) -> str:
        """Return the pattern of a file that depends on subtraction parameters as well."""
        return self.file("subtracted", name)

    def band(self, pattern: str) -> str:
        """Return the pattern of what a job of a band leaves; ``{band}`` is a `Band`.

        ``pattern`` is that of the first output of the rule that joins the bands.
        """
        path = pattern.removesuffix(f"/{ROOT}")
        directory, _, name = path.rpartition("/")
        return f"{directory}/.{name}.{{band}}.band.npz"

    def run(self, name: str) -> str:
        """Return the path of a file that covers the whole run."""
        return self.file("run", name)

    def record(self, kind: str, stage: str, level: str) -> str:
        """Return the pattern of one of the ``logs``, ``benchmarks`` or ``telemetry`` of a rule.

        ``stage`` is the name of the rule with wildcards that the directory of the level has not,
        such as ``ingest_{role}``.
        """
        suffix = {"logs": "log", "benchmarks": "tsv", "telemetry": "jsonl"}[kind]
        return f"<{kind}>/{self.directory(level)}{stage}.{suffix}"

    def digests(self, stage: str, level: str) -> str:
        """Return the pattern of the digests of what a job publishes, all of it there or below."""
        return self.file(level, f"{FOLDER}/{stage}{SUFFIX}")
