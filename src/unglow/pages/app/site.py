"""The addresses of the app, below ``<n>/app/``: what pages read, and what they send."""

from __future__ import annotations

import os
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from unglow.core.errors import ConfigError, InputError, UnglowError
from unglow.core.files import parse_whole, resolve_links
from unglow.core.machine import processors
from unglow.pages.app.images import (
    NamedImage,
    NamePattern,
    Thumbnails,
    guess,
    make_pairs,
    unique_images,
)
from unglow.pages.app.settings_form import check_changes, form
from unglow.pages.app.workplace import (
    ChangedError,
    Commands,
    Workplace,
    command,
    cores_of,
    id_of,
)
from unglow.pages.report.live_answers import JSON, Answer, parse_object
from unglow.pages.report.report import to_json
from unglow.pages.viewer.served_files import NoAddressError, answer_page, answer_problem
from unglow.workflow.batch import SHEET
from unglow.workflow.config import CONFIG, load, read_stored
from unglow.workflow.samples.naming import stem_of
from unglow.workflow.samples.pair import Discovery
from unglow.workflow.samples.sheet import read_sheet, sheet_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from unglow.pages.report.live_answers import Request
    from unglow.pages.report.live_site import Source
    from unglow.workflow.samples.pair import Pair
    from unglow.workflow.settings import Settings

NAME = "app"
"""Of this part of the site, in addresses."""
_COMMANDS = ("survey", "preflight", "run", "stop", "status", "view")


class App:
    """All that the page of a working directory asks for, and what it may change.

    Parameters
    ----------
    source
        Its results directory, as the live page knows it.
    workplace
        The working directory.
    """

    def __init__(self, source: Source, workplace: Workplace) -> None:
        self._work = workplace
        self._commands = Commands(workplace.directory, source.results)
        self._thumbnails = Thumbnails()
        self._images: dict[str, Path] = {}
        with suppress(UnglowError):  # the page shows it
            workplace.choose_named()

    def answer(self, request: Request) -> Answer:
        """Answer a request; errors are sent as ``{"error": "one sentence"}``."""
        try:
            return self._found(request)
        except NoAddressError:
            return answer_problem("There is no such address.", HTTPStatus.NOT_FOUND)
        except ChangedError as error:
            return answer_problem(str(error), HTTPStatus.CONFLICT)
        except UnglowError as error:
            return answer_problem(str(error), HTTPStatus.BAD_REQUEST)

    def _found(self, request: Request) -> Answer:
        if request.method == "POST":
            return self._take("/".join(request.parts), request.body)
        first, *rest = request.parts or ("",)
        if first == "image" and len(rest) == 1:
            return _json(self._thumbnails.describe(self._image(rest[0]), self._settings()))
        made: dict[str, Callable[[], Any]] = {
            "state.json": self.state,
            "watch.json": lambda: {"version": self._work.version, "run": self._commands.state()},
            "settings.json": self._form,
            "preflight.json": lambda: self._commands.preflight(_cores(request.query)),
        }
        if rest or first not in made:
            return answer_page(request.parts, NAME, "unglow.pages.app")
        return _json(made[first]())

    def _take(self, name: str, body: bytes) -> Answer:
        made: dict[str, Callable[[dict[str, Any]], Any]] = {
            "folder": self._choose_folder,
            "pattern": self._read_names,
            "pairs": self._preview,
            "sheet": self._write_sheet,
            "names": self._remove_sheet,
            "settings": self._change_settings,
            "run": self._start,
            "stop": lambda sent: {"text": self._commands.stop(now=sent.get("now") is True)},
        }
        if name not in made:
            raise NoAddressError(name)
        return _json(made[name](parse_object(body)))

    def state(self) -> dict[str, Any]:
        """Return all that the page shows at first, as JSON types."""
        work, mistake = self._work, ""
        version = work.version
        try:
            settings = work.settings()
        except ConfigError as error:
            settings, mistake = load({}), str(error)
        else:
            places = work.directory / settings.results, self._commands.results
            if len({*map(resolve_links, places)}) > 1:
                mistake = (
                    f"The key results is '{settings.results}' now: start `unglow app` again to "
                    "see these results."
                )
        raw, folders = work.raw(settings), work.find_folders()
        images = work.find_images(raw)
        try:
            found = work.find_pairs(settings)
        except InputError as error:
            found, mistake = Discovery(), str(error)
        sheet = work.sheet(settings)
        report = self._commands.results / "report.html"
        if not images and not work.may_read(raw):
            mistake = mistake or (
                f"The images are in {raw}, which was not named: start `unglow app {raw}` to see "
                "them here."
            )
        of_pairs = [image for pair in found.pairs for image in (pair.pre, pair.post)]
        known = [path for path in (*images, *of_pairs) if work.may_read(path)]
        self._images = {id_of(path): path for path in known}
        return {
            "version": version,
            "directory": str(work.directory),
            "why_not": work.why_not,
            "mistake": mistake,
            "raw": work.name_of(raw),
            "sheet": None if sheet is None else work.name_of(sheet),
            "folders": [
                {"id": key, "name": work.name_of(path), "images": n, "chosen": path == raw}
                for key, (path, n) in folders.items()
            ],
            "images": [
                {"name": _name_in(raw, path), **_named(guess(path, raw))} for path in images
            ],
            "pairs": [_pair(pair) for pair in found.pairs],
            "slides": [slide.name for slide in found.slides],
            # that there is no raw directory is no problem before a folder is chosen
            "notes": [*(found.notes if images else work.find_unread())],
            "problems": [p.message for p in found.problems if p.kind != "no-raw"],
            "cores": processors(),
            "report": str(report) if os.path.isfile(report) else "",
            "run": self._commands.state(),
            "commands": {
                "init": command(work.directory, "init", work.name_of(raw)),
                "monitor": command(work.directory, "monitor", "--web"),
                **{name: command(work.directory, name) for name in _COMMANDS},
            },
        }

    def _settings(self) -> Settings:
        try:
            return self._work.settings()
        except ConfigError:
            return load({})

    def _image(self, key: str) -> Path:
        if key not in self._images:
            raise NoAddressError(key)
        return self._images[key]

    def _choose_folder(self, sent: Mapping[str, Any]) -> Any:
        folders = self._work.find_folders()
        chosen = folders.get(_text(sent, "id"))
        if chosen is None:
            raise InputError("This folder is not one of those that can be chosen.")
        with self._work.changing(_text(sent, "version")):
            self._work.change_config({"raw": self._work.name_of(chosen[0])})
        return self.state()

    def _read_names(self, sent: Mapping[str, Any]) -> Any:
        """Return what a pattern reads in the names of images; nothing is written."""
        pattern = NamePattern(*(_text(sent, name) for name in ("pattern", "pre", "post")))
        raw = self._work.raw(self._settings())
        rows = []
        for path in self._work.find_images(raw):
            found = pattern.read(
                stem_of(_name_in(raw, path)), _text(sent, "sample"), _text(sent, "dye")
            )
            if found is not None:
                rows.append(_named(NamedImage(path, *found)))
        return rows

    def _pairs_of(self, sent: Mapping[str, Any]) -> tuple[list[Pair], list[str]]:
        rows = sent.get("rows")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError("'rows' has to be a list of images.")
        images = unique_images(
            NamedImage(
                self._image(_text(row, "id")), *(_text(row, k) for k in ("role", "sample", "dye"))
            )
            for row in rows
        )
        return make_pairs(images, self._known())

    def _known(self) -> dict[tuple[str, str], Pair]:
        """Return the pairs of the sample sheet as it is."""
        base = self._work.directory
        with suppress(InputError):  # it is faulty, or there is none
            return {pair.key: pair for pair in read_sheet(base / SHEET, base=base).pairs}
        return {}

    def _preview(self, sent: Mapping[str, Any]) -> Any:
        pairs, problems = self._pairs_of(sent)
        return {"pairs": [_pair(pair) for pair in pairs], "problems": problems}

    def _write_sheet(self, sent: Mapping[str, Any]) -> Any:
        pairs, problems = self._pairs_of(sent)
        if problems or not pairs:
            raise InputError(" ".join(problems) or "No image is named yet, so there is no pair.")
        settings = self._work.settings()
        if self._work.sheet(settings) is None and self._work.find_pairs(settings).slides:
            raise InputError(
                "The folder holds slides, which a sample sheet would hide: keep the pairs in a "
                "folder of their own."
            )
        with self._work.changing(_text(sent, "version")):
            self._work.write_sheet(sheet_text(pairs, self._work.directory))
        return self.state()

    def _remove_sheet(self, sent: Mapping[str, Any]) -> Any:
        with self._work.changing(_text(sent, "version")):
            self._work.remove_sheet()
        return self.state()

    def _form(self) -> Any:
        return {"version": self._work.version, "keys": form(self._stored())}

    def _stored(self) -> dict[str, Any]:
        return read_stored(self._work.directory / CONFIG)

    def _change_settings(self, sent: Mapping[str, Any]) -> Any:
        put, reset = sent.get("put", {}), sent.get("reset", [])
        if not isinstance(put, dict) or not isinstance(reset, list):
            raise InputError("'put' has to hold keys and values, and 'reset' keys.")
        with self._work.changing(_text(sent, "version")):
            names = [str(name) for name in reset]
            self._work.change_config(check_changes(self._stored(), put, names), names)
        return self._form()

    def _start(self, sent: Mapping[str, Any]) -> Any:
        if self._work.why_not:
            raise InputError(self._work.why_not)
        if sent.get("version") != self._work.version:
            raise ChangedError(
                "The settings or the sample sheet were changed meanwhile. They are shown as they "
                "are now: look at them, and start again."
            )
        self._commands.start(cores_of(sent.get("cores")))
        return self._commands.state()


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "sample": pair.sample,
        "dye": pair.dye,
        "pre": id_of(pair.pre),
        "post": id_of(pair.post),
        "names": [pair.pre.name, pair.post.name],
        "control": pair.control,
    }


def _named(image: NamedImage) -> dict[str, str]:
    said = {"role": image.role, "sample": image.sample, "dye": image.dye}
    return {"id": id_of(image.path), **said}


def _name_in(raw: Path, path: Path) -> str:
    return str(path.relative_to(raw) if path.is_relative_to(raw) else path)


def _cores(query: Mapping[str, str]) -> int | None:
    text = query.get("cores", "")
    number = parse_whole(text)
    return cores_of((text or None) if number is None else number)


def _text(sent: Mapping[str, Any], name: str) -> str:
    value = sent.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"'{name}' has to be text.")
    return value


def _json(content: object) -> Answer:
    return Answer.text(to_json(content), JSON)
