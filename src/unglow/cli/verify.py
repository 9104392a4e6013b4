"""``unglow verify``: read all results and say what is not as it was published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.cli.directories import add_results, existing
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
        "Read every store and every file of the results and compare them with their digests, and "
        "with those of what they were made from, raw images included. A line for each problem; the "
        "exit status is 1 if there are any."
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
    if arguments.repair:
        for path in sorted({path for problem in problems for path in problem.remove}):
            _remove(path)
    left = _leftovers(results)
    if problems and arguments.repair:
        say("Run the workflow again: it makes what was removed.")
    elif problems:
        count = f"{len(problems)} problem{'s' * (len(problems) > 1)}"
        say(f"{count}. `unglow verify --repair` removes what is wrong, to be made again.")
    elif not left:
        say(_all_is_well(results))
    return 1 if problems or left else 0


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
    from unglow.workflow.verify import check_pair, pair_directories  # noqa: PLC0415 (imports numpy)

    pairs = pair_directories(results)
    wrong: set[Path] = set()
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


def _all_is_well(results: Path) -> str:
    """Say that nothing is wrong, and of what that cannot be known."""
    from unglow.workflow.verify import pair_directories, without_digest  # noqa: PLC0415

    unknown = [path for pair in pair_directories(results) for path in without_digest(pair)]
    if not unknown:
        return "Everything is as it was published."
    return (
        f"Nothing is wrong that can be seen, but {len(unknown)} files have no digests to compare "
        f"them with ({unknown[0]} is the first): an older version made them, or it was not unglow."
    )


def _leftovers(results: Path) -> bool:
    """Tell what was left behind; return whether there was anything."""
    from unglow.jobs.leftovers import leftovers  # noqa: PLC0415 (only here)

    left = leftovers(results)
    if left:
        say(
            f"{len(left)} files or directories were left behind by jobs that were killed, or "
            f"belong to jobs that run: {left[0]} is the first; `unglow clean` removes them"
        )
    return bool(left)
