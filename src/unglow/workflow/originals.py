"""Check of raw images: whether they are still those that results were made from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.digests import FOLDER, SUFFIX, Published
from unglow.core.errors import StoreError
from unglow.io.image_paths import is_ome_zarr
from unglow.jobs.resume.identity import same_place
from unglow.jobs.resume.unfinished import last_run
from unglow.multiplexed.results import SlideRecord
from unglow.workflow.batch import Batch
from unglow.workflow.config import CONFIG, read_config
from unglow.workflow.samples import ROLES
from unglow.workflow.stages.plan import Plan, fingerprint
from unglow.workflow.verify import Defect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unglow.io.tiff import TiffHeader
    from unglow.workflow.samples import Pair
    from unglow.workflow.slides import KnownSlide


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
    settings: dict[str, Any] = fields.get("config") or {}
    if not settings or not same_place(work / str(fields.get("results", "")), results):
        work = results.absolute().parent  # copied or moved, or never run here
        settings = read_config(work / CONFIG)
    return Batch.load(settings, work)


def check_images(plan_file: Path, pair: Pair) -> Iterator[Defect]:
    """Yield each raw image of a pair that is not the one that its plan was made from.

    What is not there, or cannot be read, is no other image.
    """
    raw = dict(zip(ROLES, (pair.post, pair.pre), strict=True))
    try:
        plan = Plan.load(plan_file, raw)
    except (StoreError, OSError):
        return
    published = Published.of((plan_file.parent / FOLDER).glob(f"*{SUFFIX}"))
    for role, path in raw.items():
        if _is_other(plan.headers[role], plan.fingerprints[role], path):
            yield _of_another(path, plan_file, published)


def check_slide_images(record: Path, known: KnownSlide) -> Iterator[Defect]:
    """Yield each image of a slide that is not the one that its ``slide.json`` was made from."""
    try:
        prints = SlideRecord.load(record).fingerprints
    except (StoreError, OSError):
        return
    published = Published.of((record.parent / FOLDER).glob(f"*{SUFFIX}"))
    for header, fingerprint_ in zip(known.headers, prints, strict=False):
        if _is_other(header, fingerprint_, Path(header.path)):
            yield _of_another(Path(header.path), record, published)


def _of_another(image: Path, record: Path, published: Published) -> Defect:
    return Defect(
        f"{image} is not the image that {record.parent} was made from; delete {record} and rerun "
        "the workflow to make all of it again",
        published.with_others(record),
    )


def _is_other(header: TiffHeader, told: str, path: Path) -> bool:
    try:
        if not is_ome_zarr(path) and path.stat().st_size != header.file_bytes:
            return True
        return fingerprint(header) != told
    except OSError:
        return False
