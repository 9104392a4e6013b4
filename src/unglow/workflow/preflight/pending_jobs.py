"""What is still to be done in a batch, and what this machine has for it: what `preflight` judges.

Only headers and the names of files are looked at. A job is still to be done if one of its outputs
is not there; a store is there if its root ``zarr.json`` is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.machine import disk_free_mb, existing, memory_available_mb
from unglow.io.tiff import remedy
from unglow.io.zarr.bands import all_bands
from unglow.workflow import memory_model
from unglow.workflow.paths import FIGURES, ROOT
from unglow.workflow.preflight.concurrency import Machine, Task
from unglow.workflow.samples import ROLES
from unglow.workflow.variants import REGISTRATION, SUBTRACTION, variants

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from unglow.core.demand import AnyDemand
    from unglow.workflow.batch import Batch

#: Threads that the rules ask for; all others ask for one.
THREADS = {
    "ingest": 2,
    "register": 2,
    "align_band": 2,
    "align": 2,
    "difference_band": 2,
    "difference": 2,
    "detect_band": 2,
    "detect": 2,
    "snr": 2,
}
#: Rules whose jobs are counted, in the order of the stages.
RULES = (
    "ingest_band",
    "ingest",
    "register",
    "align_band",
    "align",
    "scale",
    "difference_band",
    "difference",
    "detect_band",
    "detect",
    "snr",
    "export_raw",
    "export_aligned_pre",
    "export_difference",
    "export_snr",
    "figures_registration",
    "figures",
    "comparison",
    "summary",
    "verdict",
)
#: What a job leaves on disk beside stores, MB.
SMALL_MB, FIGURES_MB = 1, 5
# Jobs of one pair: none starts before those of the steps before have ended.
_BANDS, _INGEST, _REGISTER, _ALIGN, _REST = range(5)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the user has changed about rules, by their name.

    Attributes
    ----------
    threads
        Threads; of a rule that is not in it, those of `THREADS` or one.
    mem_mb
        Memory set by hand, MB.
    """

    threads: Mapping[str, int]
    mem_mb: Mapping[str, int]

    @classmethod
    def shipped(cls) -> Rules:
        """Return the rules as they are shipped."""
        return cls(THREADS, {})


@dataclass(frozen=True, slots=True)
class _Output:
    """The outputs of one job: rule, wildcards, file patterns, its place in the order, disk.

    Those of a band are wanted only while one of the files ``of`` its stage is not there.
    """

    rule: str
    names: Mapping[str, str]
    files: tuple[str, ...]
    step: int
    disk_mb: int
    of: tuple[str, ...] = ()


def tasks_of(
    batch: Batch,
    results: Path,
    rules: Rules | None = None,
    only: Collection[tuple[str, str]] | None = None,
    *,
    again: bool = False,
) -> list[Task]:
    """List the jobs that are still to be done.

    Parameters
    ----------
    batch
        The pairs, their headers and settings.
    results
        Directory of the results.
    rules
        Threads and memory of the rules; as shipped if None.
    only
        Pairs to look at; all if None.
    again
        Whether what is there is computed again as well; it then takes no more disk.
    """
    rules = rules or Rules.shipped()
    found: list[Task] = []
    known: dict[tuple[str, ...], AnyDemand] = {}

    def add(output: _Output, place: str, *, fresh: bool = False) -> None:
        missing = fresh or _missing(output, results)
        if missing or again:
            demand = _demand(batch, output, known)
            found.append(_task(batch, output, rules, demand, place, missing=missing))

    for key in batch.pairs if only is None else sorted(only):
        directory = results.joinpath(*key)
        fresh = not directory.is_dir()
        place = str(existing(directory))
        for output in _outputs(batch, *key):
            add(output, place, fresh=fresh)
    if (found and only is None) or again:
        place = str(existing(results))
        files = {"summary": "summary.tsv", "verdict": "verdict.txt"}
        for step, (rule, file) in enumerate(files.items(), start=_REST + 1):
            add(_Output(rule, {}, (batch.outputs.run(file),), step, SMALL_MB), place)
    return _by_device(found)


def machine_for(
    tasks: Iterable[Task], cores: int | None, limit_mb: int | None, *, local: bool = True
) -> Machine:
    """Ask the machine for what it has now: memory if jobs run on it, disks of all places.

    Parameters
    ----------
    tasks
        What is to be done.
    cores, limit_mb
        What Snakemake may use for all jobs together; None for no limit.
    local
        Whether the jobs run on this machine.
    """
    places = {task.place for task in tasks}
    return Machine(
        cores=cores,
        limit_mb=limit_mb,
        available_mb=memory_available_mb() if local else None,
        free_mb={place: disk_free_mb(Path(place)) for place in places},
    )


def _outputs(batch: Batch, sample: str, dye: str) -> Iterator[_Output]:
    """List every output of a pair: of its images, of each registration, of each subtraction."""
    out = batch.outputs
    pair = {"sample": sample, "dye": dye}
    derived = memory_model.store_disk_mb(batch.layout(sample, dye, "derived"))
    yield from _of_images(batch, pair)
    for registration in variants(batch.settings, REGISTRATION):
        names = pair | {"registration": registration.name}
        yield from _of_registration(batch, names, derived)
        for subtraction in variants(batch.settings, SUBTRACTION):
            yield from _of_subtraction(batch, names | {"subtraction": subtraction.name}, derived)
    if batch.settings["sweep"]:
        files = tuple(out.pair(f"comparison.{kind}") for kind in ("tsv", "png"))
        yield _Output("comparison", pair, files, _REST, FIGURES_MB)


def _of_images(batch: Batch, pair: Mapping[str, str]) -> Iterator[_Output]:
    out, whole = batch.outputs, 0
    files = [out.pair("plan.json")]
    for role in ROLES:
        names = {**pair, "role": role}
        layout = batch.layout(pair["sample"], pair["dye"], role)
        disk = memory_model.store_disk_mb(layout)
        files.append(out.pair(f"{role}.ome.zarr/{ROOT}"))
        for form in (form for image, form in batch.exported() if image == role):
            yield _Output("export_raw", {**names, "form": form}, (out.export(role),), _REST, disk)
        count = batch.band_count("ingest", names)
        if count == 1:
            whole += disk
            continue
        part = memory_model.store_disk_mb(layout, bands=count)
        file = out.band(files[-1])
        for band in all_bands(count):
            of_band = {**names, "band": str(band)}
            yield _Output("ingest_band", of_band, (file,), _BANDS, part, (files[-1],))
    yield _Output("ingest", pair, tuple(files), _INGEST, whole + SMALL_MB)


def _of_registration(batch: Batch, names: Mapping[str, str], derived: int) -> Iterator[_Output]:
    at = batch.outputs.registered
    files: tuple[str, ...] = tuple(
        at(name) for name in ("transform.json", "displacement.npz", "blocks.csv")
    )
    yield _Output("register", names, files, _REGISTER, SMALL_MB)
    files = (at(f"aligned_pre.ome.zarr/{ROOT}"), at("statistics.npz"), at("bins.npz"))
    yield from _in_bands(batch, _Output("align", names, files, _ALIGN, derived))
    for form in (form for image, form in batch.exported() if image == "aligned_pre"):
        file = batch.outputs.export("aligned_pre")
        yield _Output("export_aligned_pre", {**names, "form": form}, (file,), _REST, derived)
    files = tuple(at(f"figures/{name}.png") for name in ("registration", "residuals", "map_error"))
    yield _Output("figures_registration", names, files, _REST, FIGURES_MB)


def _of_subtraction(batch: Batch, names: Mapping[str, str], derived: int) -> Iterator[_Output]:
    at = batch.outputs.subtracted
    yield _Output("scale", names, (at("scale.json"), at("gain_map.npz")), _REST, SMALL_MB)
    for method in batch.written(names):
        of_method = {**names, "method": method}
        files = (at(f"difference/{{method}}.ome.zarr/{ROOT}"),
                 *(at(f"difference/{{method}}.{n}.npz")
                   for n in ("histogram", "background")))  # fmt: skip
        yield from _in_bands(batch, _Output("difference", of_method, files, _REST, derived))
    for form in (form for image, form in batch.exported() if image == "difference"):
        for method in batch.methods(names):
            file = batch.outputs.export("difference")
            exported = {**names, "method": method, "form": form}
            yield _Output("export_difference", exported, (file,), _REST, derived)
    listed = memory_model.candidates_disk_mb(batch.layout(names["sample"], names["dye"], "derived"))
    listing = ("candidates.csv", "candidates.geojson", "detection.json", "search.npz")
    files = tuple(at(name) for name in listing)
    yield from _in_bands(batch, _Output("detect", names, files, _REST, listed))
    if batch.wants_snr:
        yield _Output("snr", names, (at(f"snr.ome.zarr/{ROOT}"),), _REST, derived)
    for form in (form for image, form in batch.exported() if image == "snr"):
        file = batch.outputs.export("snr")
        yield _Output("export_snr", {**names, "form": form}, (file,), _REST, derived)
    files = tuple(at(name) for name in FIGURES)
    yield _Output("figures", names, files, _REST, 2 * FIGURES_MB)


def _in_bands(batch: Batch, whole: _Output) -> Iterator[_Output]:
    """List the jobs of a stage: those of its bands, if it is split, and the one that ends it."""
    count = batch.band_count(whole.rule, whole.names)
    if count == 1:
        yield whole
        return
    disk = whole.disk_mb
    if whole.rule != "detect":
        layout = batch.layout(whole.names["sample"], whole.names["dye"], "derived")
        disk = memory_model.store_disk_mb(layout, bands=count)
    for band in all_bands(count):
        names = {**whole.names, "band": str(band)}
        file = batch.outputs.band(whole.files[0])
        yield _Output(f"{whole.rule}_band", names, (file,), whole.step, disk, whole.files)
    yield replace(whole, disk_mb=SMALL_MB)


def _missing(output: _Output, results: Path) -> bool:
    if output.of and _all_there(output.of, output.names, results):
        return False
    return not _all_there(output.files, output.names, results)


def _all_there(files: Iterable[str], names: Mapping[str, str], results: Path) -> bool:
    relative = (file.removeprefix("<results>/").format(**names) for file in files)
    return all((results / path).is_file() for path in relative)


def _demand(batch: Batch, output: _Output, known: dict[tuple[str, ...], AnyDemand]) -> AnyDemand:
    """Return the demand of a job; variants differ in that of the registration only."""
    names, rule = output.names, "summary" if output.rule == "verdict" else output.rule
    rule = "export" if rule.startswith("export_") else rule
    more = {"register": ("registration",), "export": ("subtraction", "method")}
    levels = ("sample", "dye", "role", *more.get(rule, ()))
    key = rule, *(names.get(level, "") for level in levels)
    if key not in known:
        known[key] = batch.demand(rule, {n: names[n] for n in levels if n in names})
    return known[key]


def _task(
    batch: Batch,
    output: _Output,
    rules: Rules,
    demand: AnyDemand,
    place: str,
    *,
    missing: bool,
) -> Task:
    names = output.names
    levels = ("sample", "dye", "registration", "subtraction", "role", "method", "band")
    track = [names.get(level, "") for level in levels[:4]]
    return Task(
        title=" ".join(names[n] for n in levels if names.get(n)) or "the run",
        rule=output.rule,
        demand=demand,
        threads=rules.threads.get(output.rule, 1),
        track="/".join(track),
        step=output.step,
        declared_mb=rules.mem_mb.get(output.rule),
        disk_mb=output.disk_mb if missing else 0,
        place=place,
        advice=_advice(batch, output),
    )


def _advice(batch: Batch, output: _Output) -> str:
    """Say what another way of saving the raw image would change, if it is what takes memory."""
    if output.rule not in ("ingest", "ingest_band"):
        return ""
    key = output.names["sample"], output.names["dye"]
    headers = batch.headers[key]
    if "role" in output.names:
        header = headers[ROLES.index(output.names["role"])]
        headers = (header, header)
    header = max(headers, key=lambda h: h.decode_bytes + h.others_bytes)
    return remedy(header) or ""


def _by_device(tasks: list[Task]) -> list[Task]:
    """Give all tasks of one file system the name of the first place on it."""
    names: dict[int, str] = {}
    devices: dict[str, str] = {}
    for task in tasks:
        if task.place not in devices:
            device = Path(task.place).stat().st_dev
            devices[task.place] = names.setdefault(device, task.place)
    return [
        task if devices[task.place] == task.place else replace(task, place=devices[task.place])
        for task in tasks
    ]
