"""``unglow verify``: check results for damage and changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.cli.directories import add_results, existing, named
from unglow.core.errors import UnglowError
from unglow.core.levels import variants_in
from unglow.core.terminal import say, show_progress, warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from unglow.workflow.verify import Defect


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow verify` to a parser."""
    parser.description = (
        "Read all images, tables, figures and reports of the results and compare them with their "
        "digests, and with those of what they were made from, raw images included. A line for each "
        "problem; the exit status is 1 if there are any."
    )
    add_results(parser)
    parser.add_argument(
        "--repair",
        action="store_true",
        help="remove what is wrong, so that the next run makes it again, and what hangs on it",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the problems; return 1 if there are any."""
    results = existing(arguments.results)
    problems = []
    for problem in _problems(results):
        show_progress("")
        say(problem.message)
        problems.append(problem)
    removed = {path for problem in problems for path in problem.remove}
    if arguments.repair:
        for path in sorted(removed):
            _remove(path)
    left = _leftovers(results)
    if problems and arguments.repair:
        say(_next_step(results, removed))
    elif problems:
        count = f"{len(problems)} problem{'s' * (len(problems) > 1)}"
        command = f"unglow verify{named(results)} --repair"
        say(f"{count}. `{command}` removes the files that are wrong, so that they are made again.")
    elif not left:
        say("\n".join(_all_is_well(results)))
    return 1 if problems or left else 0


def _next_step(results: Path, removed: set[Path]) -> str:
    """Say what makes again what was removed; a run that has something to do writes the report."""
    from unglow.workflow.verify import is_of_report  # noqa: PLC0415 (imports numpy)

    if all(is_of_report(path, results) for path in removed):
        return f"Run `unglow report{named(results)}`: it writes the report again."
    return "Run the workflow again: it makes what was removed."


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:  # a directory in the place of a file, for example
        say(f"{path} could not be removed ({error.strerror}): move it away by hand")
    else:
        say(f"removed {path}")


def _problems(results: Path) -> Iterator[Defect]:
    from unglow.workflow.verify import (  # noqa: PLC0415 (imports numpy)
        check_pair,
        check_run,
        pair_directories,
    )

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
    from unglow.workflow.originals import (  # noqa: PLC0415 (imports numpy)
        batch_of,
        check_images,
        check_slide_images,
    )
    from unglow.workflow.verify import is_slide  # noqa: PLC0415

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
        plans = {variant / "plan.json" for variant, _ in variants_in(place)} - wrong
        if pair is None:
            warn(f"raw images of {place} were not compared: they are not here")
            continue
        for plan in sorted(plans):
            yield from check_images(plan, pair)


def _all_is_well(results: Path) -> list[str]:
    """Say in lines what was compared and what was not."""
    from unglow.workflow.verify import coverage  # noqa: PLC0415 (imports numpy)

    checked, others = coverage(results)
    lines = [f"No problems found: {checked} files are as they were written."]
    if not checked:
        lines = ["No problems found, but there are no digests to compare files with."]
    if others:
        lines.append(
            f"Files without a digest: {len(others)} ({others[0]} is the first). An older version "
            "of unglow or another program wrote them."
        )
    return [*lines, "Not checked: telemetry, benchmarks, logs, review.csv and regions.geojson."]


def _leftovers(results: Path) -> bool:
    """Tell what was left behind; return whether there was anything."""
    from unglow.jobs.leftovers import leftovers  # noqa: PLC0415 (only here)

    left = leftovers(results)
    if left:
        say(
            f"{len(left)} files or directories were left behind by jobs that were killed, or "
            f"belong to jobs that run: {left[0]} is the first; `unglow clean{named(results)}` "
            "removes them"
        )
    return bool(left)
