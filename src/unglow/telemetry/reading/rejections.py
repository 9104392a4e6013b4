"""Rejected pairs: those whose own results say that they failed, and what helps.

Only the small files of plan, registration and scale are read, and each state of them once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from unglow.core.files import read_json
from unglow.core.levels import LEVELS, RESULT_OF, names_of, place_of, variants_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

# Files that may say it; the first one counts.
_FILES = tuple(RESULT_OF[level] for level in ("ingestion", "registration", "subtraction"))

_USABLE = ("ok", "suspect")


def reasons_of(path: Path) -> str | None:
    """Return why plan.json, transform.json or scale.json says that the pair failed.

    None if it does not say so, is not there, or cannot be read.
    """
    status, reasons = _status(path)
    return reasons if status == "failed" else None


def first_reasons(paths: Iterable[Path]) -> str | None:
    """Return the reasons of the first of some files that says so; None if none does."""
    return next((reasons for path in paths if (reasons := reasons_of(path)) is not None), None)


def failed_pairs(results: Path, pairs: object) -> list[dict[str, Any]]:
    """Return a row like those of the summary for each pair and variant that has failed so far.

    Parameters
    ----------
    results
        The results directory.
    pairs
        Sample and dye of each, as in the head of a run.

    Returns
    -------
    Sample, dye, variant, status and reasons; ``wall`` is when the file was written, Unix time, s.
    """
    listed = pairs if isinstance(pairs, list) else []
    names = [pair for pair in listed if isinstance(pair, list) and len(pair) == 2]
    return [row for sample, dye in names for row in _failed(results, str(sample), str(dye))]


def _failed(results: Path, sample: str, dye: str) -> Iterator[dict[str, Any]]:
    places = [*variants_in(results / sample / dye)]
    failed: list[Path] = []
    for name in _FILES:
        for place, variant in places:
            reasons = reasons_of(place / name)
            if reasons is None or any(place.is_relative_to(above) for above in failed):
                continue
            failed.append(place)
            names = dict.fromkeys(LEVELS, "") | {"sample": sample, "dye": dye} | variant
            wall = (place / name).stat().st_mtime
            yield {**names, "status": "failed", "reasons": reasons, "wall": wall}


def covers(failed: tuple[str, ...], row: tuple[str, ...]) -> bool:
    """Whether names of what failed are those of a row, or of all variants of it."""
    return all(a in ("", b) for a, b in zip(failed, row, strict=True))


def what_helps(results: Path, row: Mapping[str, Any], config: object) -> str:
    """Return what helps a pair whose registration failed, in a sentence; empty for other failures.

    Parameters
    ----------
    results
        The results directory.
    row
        Names and reasons of the pair, as in the summary.
    config
        Settings of the run, as in its head.
    """
    sample, dye, *_ = names_of(row)
    registered = reasons_of(place_of(results, row, "registration") / "transform.json")
    if not sample or registered is None or "mirror" in registered:  # its reason names a setting
        return ""
    if reasons_of(place_of(results, row, "ingestion") / "plan.json"):
        return ""
    helpful = [d for d in _list_registered(results / sample) if d != dye]
    other = helpful[0] if helpful else "DYE"
    whose = (
        f"of {' or '.join(helpful[:3])}"
        if helpful
        else "of another dye of this sample that registers"
    )
    return (
        "click landmarks, the same places in both images; or, if the dyes were imaged without "
        f"moving the section, take the map {whose} (setting register: from: {other}); or, if the "
        f"magnifications differ by more than {_limit(config)}, raise the largest scale that is "
        "believed (setting register: max_scale). config/README.md says how, under Help by hand."
    )


def _list_registered(sample: Path) -> list[str]:
    """Return the dyes of a sample that have a map."""
    return sorted(
        dye.name
        for dye in sample.iterdir()
        if any(_status(p / "transform.json")[0] in _USABLE for p, _ in variants_in(dye))
    )


def _limit(config: object) -> str:
    register = config.get("register") if isinstance(config, dict) else None
    limit = register.get("max_scale") if isinstance(register, dict) else None
    return f"{limit:g} times" if isinstance(limit, int | float) else "is searched"


def _status(path: Path) -> tuple[str, str]:
    """Return status and reasons of a file; empty where there are none."""
    try:
        about = path.stat()
        return _read(str(path), about.st_mtime_ns, about.st_size)
    except OSError:
        return "", ""


@lru_cache(maxsize=1 << 14)
def _read(path: str, _time: int, _size: int) -> tuple[str, str]:
    try:
        result = read_json(path)
        reasons = result.get("reasons") or result.get("reason") or ()
    except (OSError, ValueError, AttributeError):
        return "", ""
    if not isinstance(reasons, str):
        reasons = " ".join(map(str, reasons if isinstance(reasons, list) else ()))
    return str(result.get("status") or ""), reasons
