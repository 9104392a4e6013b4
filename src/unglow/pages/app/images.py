"""Raw images on the page: small pictures of them, and the names that users give them.

Images are decoded in processes of this module, so none can take memory or time of the app.
"""

from __future__ import annotations

import base64
import json
import math
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from unglow.core.errors import InputError, UnglowError
from unglow.core.printable import compose, printable
from unglow.core.windows import Window
from unglow.images.raw_images import open_reader, read_header, reads_in_order
from unglow.jobs.memory_limit import is_memory_failure, set_limit
from unglow.workflow.samples.naming import (
    RESERVED,
    explain_unsafe,
    remove_marker,
    safe_version,
    take_apart,
    word_of,
)
from unglow.workflow.samples.pair import Pair

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.images.tiff import TiffHeader
    from unglow.workflow.settings import Settings


LONGEST = 220
"""Longer side of a picture, px."""
# Pixels that are decoded for a picture at most, and bytes that a strip may take in memory.
_MOST_PX, _MOST_BYTES = 200e6, 400e6
# Rows of a band, and of one of those that are read of a large image that is not compressed.
_BAND_ROWS, _FEW_ROWS = 256, 16
# Memory of a process that draws, and time for one picture.
_MOST_MB, _MOST_S = 1000.0, 30
_KEPT = 1000
_QUALITY = 82
_SHARE = (0.5, 99.7)


class Thumbnails:
    """Pictures that were made already, while the files stay as they are; for any thread."""

    def __init__(self) -> None:
        self._made: OrderedDict[object, dict[str, str]] = OrderedDict()
        self._lock = threading.Lock()
        self._free: queue.LifoQueue[_Process] = queue.LifoQueue()
        for _ in range(2):
            self._free.put(_Process())

    def describe(self, path: Path, settings: Settings) -> dict[str, str]:
        """Return ``picture`` (JPEG, base64), ``about`` (size and type) and ``problem``."""
        try:
            state = path.stat()
        except OSError as error:
            return _answer(problem=f"It cannot be opened ({error.strerror}).")
        key = (path, state.st_mtime_ns, state.st_size, settings.plane, settings.series)
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        process = self._free.get()
        try:
            made = process.describe(str(path), settings.series, settings.plane.z, settings.plane.t)
        finally:
            self._free.put(process)
        with self._lock:
            self._made[key] = made
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return made


def _answer(picture: str = "", about: str = "", problem: str = "") -> dict[str, str]:
    return {"picture": picture, "about": printable(about), "problem": printable(problem)}


class _Process:
    """A process that draws one picture after the other, started when it is needed."""

    _started: subprocess.Popen[str] | None = None

    def describe(self, *image: object) -> dict[str, str]:
        if self._started is None or self._started.poll() is not None:
            self._started = subprocess.Popen(
                [sys.executable, "-Pm", "unglow.pages.app.images"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C is for the server
            )
        try:
            _send(self._started.stdin, image)
            return dict(json.loads(self._started.stdout.readline()))  # type: ignore[union-attr]
        except (OSError, ValueError):
            self._started.communicate()
            if self._started.returncode == -signal.SIGALRM:
                return _answer(problem=f"Reading it takes longer than {_MOST_S} s.")
            return _answer(problem="Reading it failed: it may be damaged, so export it again.")


def _send(stream: Any, content: object) -> None:
    stream.write(json.dumps(content) + "\n")
    stream.flush()


def _work() -> None:
    """Describe the images of standard input, a line each, on what standard output was."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    set_limit(_MOST_MB, 1)
    for line in sys.stdin:
        signal.alarm(_MOST_S)
        _send(answers, _describe(*json.loads(line)))
        signal.alarm(0)


def _describe(path: str, series: int | None, z: Any, t: Any) -> dict[str, str]:
    about = ""
    try:
        header = read_header(Path(path), series=series, z=z, t=t)
        rows, cols = header.shape
        channels = [c.name for c in header.channels if not c.alpha]
        more = f", {len(channels)} channels" if len(channels) > 1 else ""
        about = f"{cols} x {rows} px, {header.dtype}{more}"
        return _answer(encode(draw(header)), about)
    except (UnglowError, OSError, MemoryError, ValueError, cv2.error) as error:
        lacking = is_memory_failure(error)
        why = f"Reading it takes more than {_MOST_MB:.0f} MB." if lacking else str(error)
        return _answer("", about, why)


def draw(header: TiffHeader) -> NDArray[np.uint8]:
    """Draw a raw image small: the largest of its channels at each place, bright as it needs.

    Of a large image only some bands are decoded, so that time stays bounded.

    Returns
    -------
    (rows, cols) grey levels, the longer side at most `LONGEST`.

    Raises
    ------
    InputError
        The image can only be decoded as one, and is too large for that; or it is damaged.
    """
    rows, cols = header.shape
    in_order = reads_in_order(header, _BAND_ROWS)
    too_many = rows * cols * len(header.channels) / _MOST_PX
    if (in_order and too_many > 1) or header.decode_bytes > _MOST_BYTES:
        raise InputError("It is too large for a quick picture, since its file is one piece.")
    unit = 1 if header.raw or in_order else header.unit[0]
    least = _BAND_ROWS if too_many <= 1 else _FEW_ROWS if header.raw else 1
    height = min(rows, math.ceil(least / unit) * unit)
    tops = list(range(0, rows, height))[:: max(1, math.ceil(too_many))]
    scale = min(1.0, LONGEST / max(rows, cols))
    width = max(1, round(cols * scale))
    shown = [i for i, channel in enumerate(header.channels) if not channel.alpha]
    bands = []
    with open_reader(header) as reader:
        for top in tops:
            window = Window(top, min(rows, top + height), 0, cols)
            block = np.nan_to_num(reader.read(window)[shown].astype(np.float32))
            size = (width, max(1, round(block.shape[1] * scale)))
            bands.append(np.stack([_shrink(plane, size) for plane in block]))
    small = np.concatenate(bands, axis=1)
    stretched = [_stretch(plane) for plane in small]
    picture = np.max(stretched, axis=0)
    return np.asarray(
        cv2.resize(picture, (width, max(1, round(rows * scale))), interpolation=cv2.INTER_AREA),
        np.uint8,
    )


def _shrink(plane: NDArray[np.float32], size: tuple[int, int]) -> NDArray[Any]:
    return np.asarray(cv2.resize(plane, size, interpolation=cv2.INTER_AREA))


def _stretch(plane: NDArray[np.float32]) -> NDArray[np.uint8]:
    low, high = np.percentile(plane, _SHARE)
    level = (plane - low) * (255.0 / max(float(high - low), 1e-6))
    return np.asarray(np.clip(level, 0, 255), np.uint8)


def encode(picture: NDArray[np.uint8]) -> str:
    """Return a picture as JPEG, base64."""
    _, coded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return base64.b64encode(coded.tobytes()).decode("ascii")


ROLES = ("pre", "post")
_FIELDS = ("sample", "dye", "prepost")
_LONGEST, _MOST_STARS = 200, 6


@dataclass(frozen=True, slots=True)
class NamedImage:
    """An image, what it is (pre or post), and the sample and dye that it is of."""

    path: Path
    role: str
    sample: str
    dye: str


def guess(path: Path, raw: Path) -> NamedImage:
    """Return what name and folders of an image say; empty where they do not.

    Unlike the workflow, which refuses a name that is not complete, this is a beginning for users,
    who see each image and correct it.
    """
    above = raw if path.is_relative_to(raw) else path.parent.parent
    folders = path.parent.relative_to(above).parts
    said = next((folder for folder in reversed(folders) if word_of(folder)), None)
    sample = next((f for f in reversed(folders) if f != said), "")
    name = take_apart(path.name, sample, said)
    role = name.markers[0] if len(name.markers) == 1 else ""
    dye = name.dye or "" if role else ""
    return NamedImage(path, role, sample or (remove_marker(name.body) if role else ""), dye)


class NamePattern:
    """A pattern of paths, such as ``{sample}/{dye}_{prepost}*``.

    ``*`` stands for any letters in the name of a file or folder. Letter case does not count, and
    neither does the ending of the file.

    Parameters
    ----------
    text
        The pattern.
    pre, post
        Words that ``{prepost}`` stands for, separated by commas.

    Raises
    ------
    InputError
        It is no pattern; the message is a sentence.
    """

    def __init__(self, text: str, pre: str, post: str) -> None:
        self._roles = {
            word.strip().casefold(): role
            for role, words in zip(ROLES, (pre, post), strict=True)
            for word in words.split(",")
            if word.strip()
        }
        if len(set(self._roles.values())) < len(ROLES):
            raise InputError("Give a word for pre, and another one for post.")
        if "{prepost}" not in text:
            raise InputError("The pattern needs {prepost}, where the word for pre or post is.")
        fields = re.findall(r"\{(.*?)\}", text)
        wrong = next((f for f in fields if f not in _FIELDS or fields.count(f) > 1), None)
        if wrong is not None:
            raise InputError(f"{{{wrong}}} cannot be in a pattern, or not twice; use {_words()}.")
        if len(text) > _LONGEST or text.count("*") > _MOST_STARS:
            raise InputError(
                f"A pattern has at most {_LONGEST} characters and {_MOST_STARS} stars: shorten it."
            )
        parts = re.split(r"(\{sample\}|\{dye\}|\{prepost\}|\*)", compose(text.strip()))
        self._parts = [part for part in parts if part]

    def read(self, name: str, sample: str = "", dye: str = "") -> tuple[str, str, str] | None:
        """Return (role, sample, dye) of a path without its ending; None if it does not fit.

        ``sample`` and ``dye`` are those of all images where the pattern has none.
        """
        name = compose(name)
        found = self._match(name, 0, 0, set())
        if found is None:
            return None
        fields = {"{sample}": sample, "{dye}": dye} | found
        return self._roles[fields["{prepost}"].casefold()], fields["{sample}"], fields["{dye}"]

    def _match(
        self, text: str, n: int, start: int, failed: set[tuple[int, int]]
    ) -> dict[str, str] | None:
        """Return what the parts from the n-th on stand for; None if they do not fit.

        A regular expression would take very long for some patterns; here each part is tried at
        each place once.
        """
        if n == len(self._parts):
            return {} if start == len(text) else None
        if (n, start) in failed:
            return None
        part = self._parts[n]
        for end in self._ends(text, part, start):
            found = self._match(text, n + 1, end, failed)
            if found is not None:
                return {part: text[start:end]} | found
        failed.add((n, start))
        return None

    def _ends(self, text: str, part: str, start: int) -> Iterable[int]:
        """Return where a part may end that starts at a place, the nearest first."""
        if part == "{prepost}":
            words = sorted(self._roles, key=len, reverse=True)
        elif part in ("*", "{sample}", "{dye}"):
            slash = text.find("/", start)
            return range(start + (part != "*"), (slash if slash >= 0 else len(text)) + 1)
        else:
            words = [part.casefold()]
        ends = (start + len(word) for word in words)
        return [end for end in ends if text[start:end].casefold() in words]


def make_pairs(
    images: Sequence[NamedImage], known: Mapping[tuple[str, str], Pair]
) -> tuple[list[Pair], list[str]]:
    """Return the pairs that named images make, and a sentence for each that is not clear.

    ``known`` are pairs of the sheet as it is: what else it says of them is kept.
    """
    slots: dict[tuple[str, str], dict[str, list[Path]]] = {}
    problems = []
    for image in images:
        problems += [why for why in (_check(image),) if why]
        key = compose(image.sample.strip()), compose(image.dye.strip())
        slots.setdefault(key, {role: [] for role in ROLES}).get(image.role, []).append(image.path)
    pairs = []
    for key, slot in sorted(slots.items()):
        counts = {role: len(slot[role]) for role in ROLES}
        if set(counts.values()) == {1}:
            (pre,), (post,) = slot["pre"], slot["post"]
            old = known.get(key, Pair(*key, pre, post))
            pairs.append(replace(old, pre=pre, post=post))
        else:
            problems.append(
                f"Sample {key[0]}, dye {key[1]} has {counts['pre']} pre and {counts['post']} post "
                "images, but needs one of each: change their names, or leave some out."
            )
    return pairs, list(dict.fromkeys(problems))


def _check(image: NamedImage) -> str:
    if image.role not in ROLES:
        return f"{image.path.name} is neither pre nor post."
    for what, name in (("Sample", image.sample), ("Dye", image.dye)):
        name = compose(name.strip())  # noqa: PLW2901 (as it will be)
        why = explain_unsafe(name)
        if what == "Sample" and name in RESERVED:
            why = "is the name of something that unglow itself writes"
        if why:
            version = safe_version(name)
            hint = f", for example {version}" if name and version not in RESERVED else ""
            return f"{what} '{name}' of {image.path.name} {why}; write another name{hint}."
    return ""


def _words() -> str:
    return " ".join(f"{{{name}}}" for name in _FIELDS)


def unique_images(images: Iterable[NamedImage]) -> list[NamedImage]:
    """Return images with each file once; InputError if one is there twice."""
    found: dict[Path, NamedImage] = {}
    for image in images:
        if image.path in found:
            raise InputError(f"{image.path.name} is there twice.")
        found[image.path] = image
    return list(found.values())


if __name__ == "__main__":
    _work()
