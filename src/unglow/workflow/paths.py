"""Where every file of a run lives: the output contract as path patterns.

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

FIGURES = tuple(
    f"figures/{name}.png"
    for name in (
        *("joint_histogram", "excess_histogram", "histograms", "ratio_histogram"),
        *("difference", "difference_histogram", "methods"),
        *("candidates", "purity", "gallery"),
    )
)
"""What is drawn of a subtraction, by the rule of that name."""


def joined(output: Path) -> tuple[Path, Band | None]:
    """Return the store or file that a job works on, by its first output, and its band.

    The band is None for a job that makes all of it.
    """
    found = re.fullmatch(rf"\.(.+)\.({BAND})\.band\.npz", output.name)
    if found:
        return output.with_name(found[1]), Band.parse(found[2])
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

    @property
    def _registered(self) -> str:
        return f"{PAIR}/{{registration}}" if self.registration else PAIR

    @property
    def _subtracted(self) -> str:
        return f"{self._registered}/{{subtraction}}" if self.subtraction else self._registered

    def pair(self, name: str) -> str:
        """Return the pattern of a file that every variant of a pair shares."""
        return f"<results>/{PAIR}/{name}"

    def registered(self, name: str) -> str:
        """Return the pattern of a file that depends on registration parameters."""
        return f"<results>/{self._registered}/{name}"

    def subtracted(self, name: str) -> str:
        """Return the pattern of a file that depends on subtraction parameters as well."""
        return f"<results>/{self._subtracted}/{name}"

    def export(self, image: str) -> str:
        """Return the pattern of an exported image, ``{form}`` being a value of `FORMS`.

        Parameters
        ----------
        image
            ``post``, ``pre``, ``aligned_pre``, ``difference`` or ``snr``.
        """
        if image == "difference":
            return self.subtracted("exports/difference_{method}.{form}")
        if image == "snr":
            return self.subtracted("exports/snr.{form}")
        if image == "aligned_pre":
            return self.registered("exports/aligned_pre.{form}")
        return self.pair(f"exports/{image}.{{form}}")

    def band(self, pattern: str) -> str:
        """Return the pattern of what a job of a band leaves; ``{band}`` is a `Band`.

        Parameters
        ----------
        pattern
            Of the first output of the rule that joins the bands.
        """
        path = pattern.removesuffix(f"/{ROOT}")
        place, _, name = path.rpartition("/")
        return f"{place}/.{name}.{{band}}.band.npz"

    def run(self, name: str) -> str:
        """Return the path of a file that covers the whole run."""
        return f"<results>/{name}"

    def record(self, kind: str, stage: str, like: str) -> str:
        """Return the pattern of a log, benchmark or telemetry file, wildcards as in ``like``.

        Parameters
        ----------
        kind
            ``logs``, ``benchmarks`` or ``telemetry``.
        stage
            Name of the rule, and of further wildcards such as ``ingest_{role}``.
        like
            ``pair``, ``registered``, ``subtracted`` or ``run``.
        """
        suffix = {"logs": "log", "benchmarks": "tsv", "telemetry": "jsonl"}[kind]
        return f"<{kind}>/{self._places[like]}{stage}.{suffix}"

    def digests(self, stage: str, like: str) -> str:
        """Return the pattern of the file with the digests of what a job publishes.

        Parameters
        ----------
        stage
            As for `record`.
        like
            ``pair``, ``registered`` or ``subtracted``: all that it lists is there, or below.
        """
        return f"<results>/{self._places[like]}{FOLDER}/{stage}{SUFFIX}"

    @property
    def _places(self) -> dict[str, str]:
        return {
            "pair": f"{PAIR}/",
            "registered": f"{self._registered}/",
            "subtracted": f"{self._subtracted}/",
            "run": "",
        }
