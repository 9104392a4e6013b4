"""All that tells what happened in a run, in one archive for a bug report, and no pixel of it.

Taken is what a row of `_PARTS` names: text files that the user, unglow or Snakemake wrote. Images,
stores, arrays, figures and the report, which shows pictures, are never looked at.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.core.files import read_file, replacing
from unglow.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# Where to look (under the working directory, or under that of the results), for which files, and
# what to call that in the archive.
_PARTS = (
    ("directory", "config", "**/*.y*ml", "config"),
    ("directory", "config", "**/*.[ct]sv", "config"),
    ("directory", "profiles", "**/*.y*ml", "profiles"),
    ("directory", "logs", "**/*.log", "logs"),
    ("directory", ".snakemake/log", "*.log", "snakemake"),
    ("directory", ".snakemake/unglow", "*.json", "headers"),
    ("results", ".", "*.t[sx][vt]", "results"),
    ("results", "telemetry", "**/*.jsonl", "telemetry"),
    ("results", "benchmarks", "**/*.tsv", "benchmarks"),
    ("results", ".", "**/*.json", "results"),
    ("results", ".", "**/blocks.csv", "results"),
    ("results", ".", "**/digests/*.sha256", "results"),
)
# Directories of results that hold pixels, or a part of its own.
_PASSED_OVER = ("telemetry", "benchmarks")
# The zip format knows no time before this.
_FIRST_TIME = (1980, 1, 1, 0, 0, 0)
ABOUT = """\
What unglow was asked to do here, with which versions, and what came of it: settings, headers of the
images, logs, telemetry, and the numbers of each result. There are no pixels in it: no image, no
store, no figure, and no report.

It does name files, samples, directories, this machine and its user; look through it before you
give it to others.
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What an archive holds.

    Attributes
    ----------
    counts
        Files by part: config, logs, telemetry and so on.
    unreadable
        Files that could not be read, with the reason.
    size
        Of the archive, bytes.
    """

    counts: Mapping[str, int]
    unreadable: tuple[str, ...]
    size: int


def parts(directory: Path, results: Path) -> Iterator[tuple[str, str, Path]]:
    """Find what belongs into a bundle.

    Parameters
    ----------
    directory
        Working directory of the runs.
    results
        Their results.

    Yields
    ------
    Part, name inside that part, and file; each file once, in order of the names.
    """
    roots = {"directory": directory, "results": results}
    taken = set()
    for root, below, pattern, part in _PARTS:
        place = roots[root] / below
        for path in sorted(place.glob(pattern)):
            name = path.relative_to(place)
            inside = part == "results" and (
                name.parts[0] in _PASSED_OVER or any(p.endswith(".zarr") for p in name.parts)
            )
            if inside or path in taken or not path.is_file():
                continue
            taken.add(path)
            yield part, name.as_posix(), path


def write_bundle(
    target: Path, directory: Path, results: Path, environment: Mapping[str, Any]
) -> Bundle:
    """Write the archive; it is there whole, or not at all.

    Parameters
    ----------
    target
        The zip file; what it holds is in a directory of its name.
    directory, results
        See `parts`.
    environment
        What the machine is and has, as JSON.

    Raises
    ------
    UnglowError
        The archive could not be written.
    """
    counts: dict[str, int] = {}
    unreadable = []
    with replacing(target) as temporary:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_entry(f"{target.stem}/README.txt"), ABOUT)
            text = json.dumps(environment, indent=1, default=str)
            archive.writestr(_entry(f"{target.stem}/environment.json"), text)
            for part, name, path in parts(directory, results):
                try:
                    content = read_file(path)
                except OSError as error:
                    unreadable.append(f"{path}: {error.strerror}")
                    continue
                entry = _entry(printable(f"{target.stem}/{part}/{name}"))
                archive.writestr(entry, content)
                counts[part] = counts.get(part, 0) + 1
        size = temporary.stat().st_size
    return Bundle(counts, tuple(unreadable), size)


def _entry(name: str) -> zipfile.ZipInfo:
    """Return an entry without a time, so that the same files make the same archive."""
    entry = zipfile.ZipInfo(name, _FIRST_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
