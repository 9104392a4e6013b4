"""Checks of results: no byte has changed since it was published, and files belong together.

One file or store is read at a time, block by block, so memory does not grow with the images.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from unglow.core import digests
from unglow.core.digests import Published
from unglow.core.errors import StoreError
from unglow.core.files import read_json
from unglow.core.levels import DETAILS
from unglow.core.made_with import Lists, published_inputs
from unglow.images.zarr.layout import DOCUMENT, store_digest
from unglow.images.zarr.reader import verify
from unglow.review import REGIONS, REVIEW
from unglow.workflow.stage_table import CORRECTED, STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STORE = ".ome.zarr"
_RUN_DIRECTORIES = ("telemetry", "benchmarks", DETAILS)
_AGAIN = "delete it and rerun the workflow to make it again"

# Names of results below the directory of a pair, a slide or a run.
_RESULT = re.compile(
    "(?:.*/)?(?:"
    + "|".join(
        re.sub(r"\\{\w+\\}", "[^/]+", re.escape(file))
        for file in (
            *(file for stage in STAGES.values() for file in stage.files),
            *(*CORRECTED.values(), "figures/{name}.png"),
            "report.html",
        )
    )
    + ")"
)


@dataclass(frozen=True, slots=True)
class Defect:
    """A file that is missing, damaged, or has changed since it was published.

    Attributes
    ----------
    message
        One sentence.
    remove
        The files without which Snakemake makes it again, and what hangs on it.
    """

    message: str
    remove: tuple[Path, ...]


def pair_directories(results: Path) -> list[Path]:
    """Return ``<results>/<sample>/<dye>`` of every pair, and that of every slide, sorted."""
    samples = [p for p in results.iterdir() if p.is_dir() and p.name not in _RUN_DIRECTORIES]
    slides = [sample for sample in samples if is_slide(sample)]
    pairs = (dye for one in samples if one not in slides for dye in one.iterdir() if dye.is_dir())
    return sorted([*slides, *pairs])


def is_slide(directory: Path) -> bool:
    """Return whether a directory of results is that of a slide: its jobs list what they publish."""
    lists = f"{digests.FOLDER}/slide_*{digests.SUFFIX}"
    return any(any(directory.glob(each)) for each in (lists, f"registration/*/{lists}"))


def run_files(results: Path) -> list[Path]:
    """Return the files of the run itself: tables, verdict, report, digests."""
    found = (
        *results.iterdir(),
        *(results / digests.FOLDER).glob("*"),
    )
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))


def is_of_report(path: Path, results: Path) -> bool:
    """Whether a file of the run itself belongs to its report, which `unglow report` writes."""
    return path in (results / "report.html", digests.list_of(results, "report"))


def list_contents(pair: Path) -> tuple[list[Path], list[Path]]:
    """Return the stores and the files of a pair, of all its variants, sorted.

    Hidden ones are not among them, nor is what people have written back: it is theirs to change.
    """
    stores: list[Path] = []
    files: list[Path] = []
    for path in sorted(pair.iterdir()):
        if path.name.startswith(".") or path.name in (REVIEW, REGIONS):
            continue
        if not path.is_dir():
            files.append(path)
        elif path.name.endswith(STORE):
            stores.append(path)
        else:
            inner_stores, inner_files = list_contents(path)
            stores += inner_stores
            files += inner_files
    return stores, files


def check_run(results: Path) -> Iterator[Defect]:
    """Yield what is wrong with the files of the run itself."""
    files = run_files(results)
    published = Published.from_files(files)
    for path in sorted({*published.jobs, *published.digests}):
        again = _AGAIN
        if is_of_report(path, results):
            again = f"delete it and run `unglow report {quote(str(results))}` to write it again"
        if defect := check_file(path, published, again):
            yield replace(defect, remove=published.list_job_outputs(path))
    # a report may have been written by a later version of unglow than the tables
    if any(path.stem != "report" for path in published.jobs):
        yield from _find_without_digest(results, files, published)


def check_pair(pair: Path) -> Iterator[Defect]:
    """Yield what is wrong with the results of a pair, of all its variants.

    What a list of digests has is compared with it. With what is wrong goes all that the same job
    makes.
    """
    stores, files = list_contents(pair)
    published = Published.from_files(files)
    roots = {store / DOCUMENT for store in stores}
    roots |= {path for path in published.digests if path.name == DOCUMENT}
    wrong = []
    for path in sorted({*files, *published.digests} - roots):
        if defect := check_file(path, published):
            wrong.append(path)
            yield replace(defect, remove=published.list_job_outputs(path))
    for root in sorted(roots):
        defects = [*(check_channels if is_slide(pair) else check_store)(root.parent)]
        if not defects and root in published.digests and (defect := check_file(root, published)):
            defects = [defect]
        for defect in defects:
            yield replace(defect, remove=published.list_job_outputs(root))
    yield from find_stale(published)
    if published.jobs:
        others = {*files, *filter(Path.is_file, roots)} - {*wrong}
        yield from _find_without_digest(pair, others, published)


def _find_without_digest(
    place: Path, files: Iterable[Path], published: Published
) -> Iterator[Defect]:
    """Yield a defect for each result that no list has, in a place whose jobs leave lists.

    None where a list is damaged, which may have had it.
    """
    if not all(job.whole for job in published.jobs.values()):
        return
    for path in sorted({*files} - published.digests.keys() - published.jobs.keys()):
        if _RESULT.fullmatch(path.relative_to(place).as_posix()) and path.stat().st_size:
            yield Defect(
                f"{path} has no digest, but other files of {place} have; {_AGAIN}", (path,)
            )


def count_covered(results: Path) -> tuple[int, list[Path]]:
    """Return how many files have digests, and the files that have none, lists aside."""
    checked: set[Path] = set()
    others: list[Path] = []
    for files in (
        run_files(results),
        *(list_contents(place)[1] for place in pair_directories(results)),
    ):
        published = Published.from_files(files)
        checked |= published.digests.keys()
        others += (p for p in files if p not in published.digests and p not in published.jobs)
    return len(checked), others


def check_store(store: Path) -> Iterator[Defect]:
    """Yield what is damaged in a store."""
    root = store / DOCUMENT
    if not root.is_file():  # Snakemake knows that it is not there
        return
    try:
        damage = verify(store)
    except StoreError as error:
        damage = [str(error)]
    for sentence in damage:
        yield Defect(sentence, (root,))


def check_channels(store: Path) -> Iterator[Defect]:
    """Yield what is wrong with a store of many channels: shards that are not as they were."""
    root = store / DOCUMENT
    try:
        published = read_json(root)["attributes"]["unglow"]["digest"]
    except (OSError, ValueError, LookupError, TypeError):
        return  # of a refused slide, damaged or missing: its own digest shows it
    channels: dict[str, dict[str, str]] = {}
    for shard in store.glob("*/c/*/*/*"):
        level, c, channel, row, col = shard.relative_to(store).parts
        channels.setdefault(channel, {})[f"{level}/{c}/{row}/{col}"] = digests.hash_file(shard)
    if store_digest({n: store_digest(own) for n, own in channels.items()}) != published:
        yield Defect(
            f"{store}: its shards are not those that were published; delete {root} and rerun the "
            "workflow to make it again",
            (root,),
        )


def find_stale(published: Published) -> Iterator[Defect]:
    """Yield a defect for each job that has read another file than the one that is there now.

    A file that no list has is a defect of its own.
    """
    lists = Lists()
    for job in published.jobs.values():
        for path, digest in published_inputs(job):
            if lists.digest_of(path) not in (None, digest):
                made = next(iter(job.files))
                yield Defect(
                    f"{made} was made from another {path} than the one that is there now; {_AGAIN}",
                    job.files,
                )


def check_file(path: Path, published: Published, again: str = _AGAIN) -> Defect | None:
    """Return what is wrong with a file of results, by its digest; None if nothing.

    ``again`` says how it is made again.
    """
    digest = published.digests.get(path)
    fault = None
    try:
        if path in published.jobs:
            fault = None if published.jobs[path].whole else "is not a whole list of digests"
            again = "--repair removes all that its job makes, and the next run makes it again"
        elif digest is not None and digests.hash_file(path) != digest:
            fault = "has changed since it was published"
    except FileNotFoundError:
        fault, again = "is missing", again.replace("delete it and ", "")
    except OSError as error:
        fault = f"cannot be read ({error.strerror or error})"
    return None if fault is None else Defect(f"{path} {fault}; {again}", (path,))
