"""``unglow verify`` and ``clean``: damage, changes, other raw images, leftovers of killed jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unglow.cli.directories import (
    add_directory,
    add_lost,
    add_results,
    existing,
    quote_directory,
    results_of,
)
from unglow.core.digests import FOLDER, SUFFIX, Published
from unglow.core.errors import InputError, StoreError, UnglowError
from unglow.core.levels import RESULT_OF, variants_in
from unglow.core.printable import say, show_progress, warn
from unglow.images.pair_plan import ROLES, Plan
from unglow.images.raw_file import fingerprint
from unglow.images.raw_header import is_ome_zarr
from unglow.jobs.attempt_lock import leftovers, remove, size_mb
from unglow.jobs.resume import refuse_if_at_work
from unglow.jobs.run_records import last_run, same_place
from unglow.results.slide_files import SlideRecord
from unglow.telemetry.jsonl import mapping
from unglow.wings import SLIDES
from unglow.workflow.batch import Batch
from unglow.workflow.config import CONFIG, read_stored
from unglow.workflow.verify import (
    Defect,
    check_pair,
    check_run,
    count_covered,
    is_of_report,
    is_slide,
    pair_directories,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from unglow.images.slide_plan import KnownSlide
    from unglow.images.tiff import TiffHeader
    from unglow.workflow.samples.pair import Pair


def batch_of(results: Path) -> Batch:
    """Return the pairs and slides that a results directory is of, as its last run found them.

    Raises
    ------
    UnglowError
        There is nothing to find them by, or nothing is left of them.
    """
    run = last_run(results)
    fields = {} if run is None else run.fields
    work = Path(str(fields.get("directory", "")))
    settings = {**mapping(fields.get("config"))}
    if not settings or not same_place(work / str(fields.get("results", "")), results):
        work = results.absolute().parent  # copied or moved, or never run here
        settings = read_stored(work / CONFIG)
    if same_place(work, Path()):
        work = Path()  # so that messages name short paths
    return Batch.load(settings | {"only": None}, work, SLIDES)


def check_images(plan_file: Path, pair: Pair) -> Iterator[Defect]:
    """Yield each raw image of a pair that is not the one that its plan was made from.

    What is not there, or cannot be read, does not count as another image.
    """
    raw = dict(zip(ROLES, (pair.post, pair.pre), strict=True))
    try:
        plan = Plan.load(plan_file, raw)
    except (StoreError, OSError):
        return
    images = ((plan.headers[role], plan.fingerprints[role], raw[role]) for role in raw)
    yield from _find_others(images, plan_file, plan_file.parents[1])


def check_slide_images(record: Path, known: KnownSlide) -> Iterator[Defect]:
    """Yield each image of a slide that is not the one that its ``slide.json`` was made from."""
    try:
        prints = SlideRecord.load(record).fingerprints
    except (StoreError, OSError):
        return
    paths = (Path(header.path) for header in known.headers)
    yield from _find_others(zip(known.headers, prints, paths, strict=False), record, record.parent)


def _find_others(
    images: Iterable[tuple[TiffHeader, str, Path]], record: Path, place: Path
) -> Iterator[Defect]:
    """Yield each image, given with header and recorded fingerprint, that is another one now."""
    published = Published.from_files((place / FOLDER).glob(f"*{SUFFIX}"))
    for header, recorded, image in images:
        if _is_other(header, recorded, image):
            yield Defect(
                f"{image} is not the image that {place} was made from; delete {record} and "
                "rerun the workflow to make all of it again",
                published.list_job_outputs(record),
            )


def _is_other(header: TiffHeader, recorded: str, path: Path) -> bool:
    try:
        if not is_ome_zarr(path) and path.stat().st_size != header.file_bytes:
            return True
        return fingerprint(header) != recorded
    except OSError:
        return False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow verify` to a parser."""
    parser.description = (
        "Check all images, tables, figures and reports of the results for damage or changes, by "
        "their digests. Also check that they were made from the inputs that are there now, raw "
        "images included. Prints a line for each problem; the exit status is 1 if there is one."
    )
    add_results(parser)
    parser.add_argument(
        "--repair",
        action="store_true",
        help="remove wrong files and what depends on them, so that the next run makes them again",
    )
    add_lost(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the problems; return 1 if there are any."""
    results = existing(arguments.results)
    before = last_run(results)
    problems = list(_problems(results))
    if problems:
        refuse_if_at_work(results, arguments.lost)
        if last_run(results) != before:
            raise InputError(f"A run on {results} has just ended: verify again.")
    for problem in problems:
        say(problem.message)
    removed = {path for problem in problems for path in problem.remove}
    if arguments.repair:
        for path in sorted(removed):
            _remove(path)
    left = _leftovers(results)
    if problems and arguments.repair:
        say(_next_step(results, removed))
    elif problems:
        command = f"unglow verify{quote_directory(results)} --repair"
        count = f"{len(problems)} problem{'s' * (len(problems) > 1)}"
        say(f"{count}. `{command}` removes the files that are wrong, so that they are made again.")
    elif not left:
        say("\n".join(_all_is_well(results)))
    return 1 if problems or left else 0


def _next_step(results: Path, removed: set[Path]) -> str:
    """Say what makes again what was removed; a run that has something to do writes the report."""
    if all(is_of_report(path, results) for path in removed):
        return f"Run `unglow report{quote_directory(results)}`: it writes the report again."
    return "Run the workflow again: it makes what was removed."


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except FileNotFoundError:
        pass
    except OSError as error:  # a directory in the place of a file, for example
        say(f"{path} could not be removed ({error.strerror}): move it away by hand")
    else:
        say(f"removed {path}")


def _problems(results: Path) -> Iterator[Defect]:
    pairs = pair_directories(results)
    wrong: set[Path] = set()
    yield from check_run(results)
    for number, pair in enumerate(pairs, start=1):
        name = " ".join(pair.relative_to(results).parts)
        show_progress(f"pair {number} of {len(pairs)}, {name}")
        for problem in check_pair(pair):
            wrong.update(problem.remove)
            yield problem
    show_progress("")
    yield from _other_images(results, pairs, wrong)


def _other_images(results: Path, places: list[Path], wrong: set[Path]) -> Iterator[Defect]:
    """Yield a problem for each raw image that is another one now."""
    try:
        batch = batch_of(results)
    except UnglowError as error:
        warn(f"raw images were not compared: {error}")
        return
    for place in places:
        if is_slide(place) and place.name in batch.slides:
            yield from check_slide_images(place / "slide.json", batch.slides[place.name])
            continue
        pair = batch.pairs.get((place.parent.name, place.name))
        plans = {variant / RESULT_OF["ingestion"] for variant, _ in variants_in(place)} - wrong
        if pair is None:
            warn(f"raw images of {place} were not compared: they are not here")
            continue
        for plan in sorted(plans):
            yield from check_images(plan, pair)


def _all_is_well(results: Path) -> list[str]:
    """Say in lines what was compared and what was not."""
    checked, others = count_covered(results)
    lines = [f"No problems found: {checked} files are as they were written."]
    if not checked:
        lines = ["No problems found, but there are no digests to compare files with."]
    if others:
        lines.append(
            f"Files without a digest: {len(others)} ({others[0]} is the first). They were not "
            "compared: their digests are gone, or unglow did not write them."
        )
    return [*lines, "Not checked: telemetry, benchmarks, logs, review.csv and regions.geojson."]


def _leftovers(results: Path) -> bool:
    """Report what was left behind; return whether there was anything."""
    left = leftovers(results)
    if left:
        say(
            f"{len(left)} files or directories were left behind by jobs that were killed, or "
            f"belong to jobs that run: {left[0]} is the first; "
            f"`unglow verify --clean{quote_directory(results)}` removes them"
        )
    return bool(left)


def add_arguments_clean(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow verify --clean` to a parser."""
    parser.description = (
        "Remove leftovers of killed jobs from the results: files and stores that were never "
        "published, and pixels of stores that Snakemake has deleted. Results are not touched, and "
        "nothing is removed while a run may still work."
    )
    add_directory(parser)
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="only list what would be removed"
    )
    add_lost(parser)


def run_clean(arguments: argparse.Namespace) -> int:
    """Remove, and print what; return 1 if something could not be removed."""
    results = results_of(arguments.directory)
    paths = leftovers(results)
    if paths and not arguments.dry_run:
        refuse_if_at_work(results, arguments.lost)
    total, stayed = 0.0, 0
    for path in paths:
        mb = size_mb(path)
        gone = arguments.dry_run or remove(path)
        word = "would remove" if arguments.dry_run else "removed" if gone else "could not remove"
        say(f"{word} {path} ({mb:.1f} MB)")
        total, stayed = total + mb * gone, stayed + (not gone)
    would = "would be" if arguments.dry_run else "were"
    say(f"{total:.1f} MB {would} removed." if paths else "There is nothing to remove.")
    return 1 if stayed else 0
