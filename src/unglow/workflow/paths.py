"""Paths: where every file of a run lives, as patterns.

Patterns hold Snakemake's ``<results>``, ``<logs>``, ``<benchmarks>`` and the wildcards that a
rule needs; rules and commands take their paths from here, so that no path is spelled twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partialmethod

from unglow.core.digests import FOLDER, SUFFIX
from unglow.core.levels import PAIR, VARIANT
from unglow.io.zarr.layout import DOCUMENT

PLACES = ("pair", "ingested", "registered", "subtracted", "detected")
"""Where files are of what depends on no swept parameter, and on those of each level as well."""
OF_SLIDE = {
    "slide": "{sample}/",
    "move": "{sample}/registration/{cycle}/",
    "part": "{sample}/parts/{part}/",
}
"""Where files are of a slide, of the map between two of its cycles (``{cycle}`` is ``1-2``), and of
a part of a large one, until they are joined."""
ROOT = DOCUMENT
"""The file of a store that rules name: it is written last."""
FORMS = {"tiff": "ome.tif", "fits": "fits"}
"""Keys of ``exports`` in the configuration to how the files end."""


def store(name: str) -> str:
    """Return the file that stands for a store: its root metadata, with a digest of all pixels."""
    return f"{name}.ome.zarr/{ROOT}"


CORRECTED = {"tiff": "corrected.ome.tif", "zarr": store("corrected")}
"""The corrected image of a slide, by the form that it is written in."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Path patterns of one run; ``swept`` are the levels of variants that there are."""

    swept: tuple[str, ...] = ()

    def levels(self, level: str) -> tuple[str, ...]:
        """Return the wildcards of a directory of `PLACES`: pair, and what of it is swept."""
        above = VARIANT[: PLACES.index(level)]
        return (*PAIR, *(name for name in above if name in self.swept))

    @cache  # noqa: B019 (there is one for each configuration, and each job asks)
    def directory(self, level: str) -> str:
        """Return the pattern of a directory below the results (or logs), with a slash at its end.

        Levels are those of `PLACES` or `OF_SLIDE`, or ``run``.
        """
        if level in OF_SLIDE:
            return OF_SLIDE[level]
        return "" if level == "run" else "".join(f"{{{name}}}/" for name in self.levels(level))

    def file(self, level: str, name: str) -> str:
        """Return the pattern of a result of a level."""
        return f"<results>/{self.directory(level)}{name}"

    pair = partialmethod(file, "pair")
    ingested = partialmethod(file, "ingested")
    registered = partialmethod(file, "registered")
    subtracted = partialmethod(file, "subtracted")
    detected = partialmethod(file, "detected")
    slide = partialmethod(file, "slide")
    move = partialmethod(file, "move")
    part = partialmethod(file, "part")

    def run(self, name: str) -> str:
        """Return the path of a file that covers the entire run."""
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
