"""Scale methods and their settings, the gain and offset of each, and ``scale.json``.

The difference of a method is post - (gain * pre + offset).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from unglow.core.archive import make_damage_error
from unglow.core.files import write_json
from unglow.core.reasons import Sentence, to_json
from unglow.core.records import RecordError, read_record, to_plain, to_record
from unglow.core.settings import All, Auto, Section, about
from unglow.photometry import imaging
from unglow.photometry.gain import bright_field
from unglow.photometry.imaging import NoiseModel, Sharpness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.photometry.imaging import Blur, GainMap

_VERSION = 1
_Interval = tuple[float, float] | None


class _Gain(msgspec.Struct):
    gain: float


class _Failed(msgspec.Struct, tag_field="status", tag="failed"):
    reason: str


class _Found(msgspec.Struct, tag_field="status", tag="ok"):
    gain: float
    offset: float
    gain_ci95: _Interval
    offset_ci95: _Interval
    noise: NoiseModel | None = None
    gain_map: dict[str, str | float | list[float]] | None = None
    gains: dict[str, _Gain] = msgspec.field(default_factory=dict)


_OWN = {"status", "reason", "gain", "offset", "gain_ci95", "offset_ci95"}
"""Keys of an entry that are no details of the method."""


class _Entry(msgspec.Struct):
    """A scale in a result file."""

    status: str
    default: str
    methods: dict[str, dict[str, Any]]
    reasons: tuple[Sentence, ...]
    notes: tuple[Sentence, ...] = ()
    sharpness: Sharpness | None = None
    bright_field: tuple[str, ...] = ()


class _Version(msgspec.Struct):
    version: Literal[1]


@dataclass(frozen=True, slots=True)
class Method:
    """Properties of a scale method.

    Attributes
    ----------
    colour
        Its colour in figures.
    finds_offset
        Whether it estimates an offset of the images; all others take it as 0.
    is_given
        Whether its gain is not estimated at all.
    settings
        Those of `ScaleSettings` that its gain and offset follow from.
    """

    colour: str
    finds_offset: bool = False
    is_given: bool = False
    settings: tuple[str, ...] = ()

    @property
    def takes_ratios(self) -> bool:
        """Whether it rests on ratios of the images, which an offset makes wrong."""
        return not self.finds_offset and not self.is_given


MethodName = Literal["linear", "moffat", "percentile", "manual", "exposure", "control"]
METHODS: dict[str, Method] = {
    # those that users of exo2micro know keep the colours that they have there
    "linear": Method("#0072B2", finds_offset=True, settings=("gain_map",)),
    "moffat": Method("#1fa03c"),
    "percentile": Method("#ff8c00", settings=("percentile",)),
    "manual": Method("#e83e8c", is_given=True, settings=("manual",)),
    "exposure": Method("#6f42c1", is_given=True),
    "control": Method("#a0522d", finds_offset=True, is_given=True, settings=("gain_map",)),
}
"""All scale methods; `unglow.photometry.gain.estimate.ESTIMATORS` has their functions."""


class ScaleSettings(Section, frozen=True):
    """What to estimate (config section ``scale``)."""

    methods: Annotated[
        tuple[MethodName, ...],
        about("Scale methods; each one gives a difference of its own.", min_length=1),
    ] = ("linear", "moffat", "percentile")
    default: Annotated[
        MethodName | None,
        about(
            "Method whose gain and difference are shown, written and searched; null takes the "
            "first of methods. control takes gain and offset of the unstained controls of the dye "
            "(column control of the sample sheet), where there are some."
        ),
    ] = None
    write: Annotated[
        tuple[MethodName, ...] | All | None,
        about(
            "Methods whose differences are written at full size in addition to that of the "
            "default method, a list or all. null writes none of them, and they are computed when "
            "they are viewed."
        ),
    ] = None
    percentile: Annotated[
        float,
        about("Percentile of log10(post / pre) that the percentile method takes.", gt=0, lt=100),
    ] = 50
    manual: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        about("Gain of the manual method; the sample sheet can set it per pair (manual_scale)."),
    ] = None
    gain_map: Annotated[
        Auto,
        about(
            "Whether the linear method evens out light that differs from place to place; auto "
            "does where that fits held-out cells better."
        ),
    ] = "auto"
    match_blur: Annotated[
        Auto,
        about(
            "Whether the sharper image is blurred like the other before they are subtracted. auto"
            " does where they differ in focus and it makes the residuals of held-out blocks "
            "smaller."
        ),
    ] = "auto"

    @property
    def bright_field(self) -> tuple[str, ...]:
        """The images of the pair that are bright-field; see `PairScaleSettings`."""
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        """Methods that are estimated: `methods`, and ``manual`` where a manual gain is given."""
        extra = self.manual is not None and "manual" not in self.methods
        return (*self.methods, "manual") if extra else tuple(self.methods)

    @property
    def first(self) -> str:
        """The default method, if it gives a gain."""
        return self.default or self.names[0]


class PairScaleSettings(ScaleSettings, frozen=True):
    """Scale settings of a pair, with the images that `gain.bright_field` found to be such."""

    bright_field: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MethodResult:
    """Gain and offset of one method.

    Attributes
    ----------
    gain, offset
        Of post = gain * pre + offset, offset in grey levels; None where the method failed.
    gain_ci95
        95 % confidence interval of the gain, None where there is none.
    details
        What the method used, ready for JSON.
    reason
        Why the method gave no gain; None where it gave one.
    offset_ci95
        95 % confidence interval of the offset, grey levels; None where there is none.
    gain_map
        Uneven light that goes with gain and offset; None for none. ``scale.json`` says of it, and
        a file next to it holds it (`unglow.photometry.imaging`).
    """

    gain: float | None
    offset: float | None
    gain_ci95: tuple[float, float] | None
    details: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    offset_ci95: tuple[float, float] | None = None
    gain_map: GainMap | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a gain."""
        return self.gain is not None

    @property
    def weights(self) -> list[tuple[str, float]]:
        """Several backgrounds with their weights in the mean background that the gain is of."""
        gains = {name: one["gain"] for name, one in self.details.get("gains", {}).items()}
        total = sum(gains.values())
        return [(name, gain / total if total else 1 / len(gains)) for name, gain in gains.items()]

    @classmethod
    def make_failed(cls, reason: str, details: dict[str, Any] | None = None) -> MethodResult:
        """Return the result of a method that gives no gain."""
        return cls(None, None, None, details or {}, reason)

    def add_light(self, light: GainMap | None, path: Path) -> MethodResult:
        """Return the result with its gain map, read from ``path``; StoreError if it is another."""
        digest = self.details["gain_map"].get("sha256")
        if digest is not None and (light is None or light.digest != digest):
            raise make_damage_error(path)
        return replace(self, gain_map=light)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of ``scale.json``."""
        if not self.ok:
            return {"status": "failed", "reason": self.reason, **self.details}
        return {
            "status": "ok",
            "gain": self.gain,
            "offset": self.offset,
            "gain_ci95": self.gain_ci95 and list(self.gain_ci95),
            "offset_ci95": self.offset_ci95 and list(self.offset_ci95),
            **self.details,
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> MethodResult:
        """Read an entry of ``scale.json``; RecordError if it is none."""
        found = to_record(entry, _Found | _Failed)
        details = {key: value for key, value in entry.items() if key not in _OWN}
        if isinstance(found, _Failed):
            return cls.make_failed(found.reason, details)
        ends = found.gain_ci95, found.offset_ci95
        return cls(found.gain, found.offset, ends[0], details, offset_ci95=ends[1])


@dataclass(frozen=True, slots=True)
class Scale:
    """Results of all methods; ``default`` names the one that represents the pair.

    Attributes
    ----------
    status
        ``ok``, or ``failed`` where no method gave a gain or the pair was refused.
    reasons
        Sentences on what did not work, and on what makes the gains doubtful.
    notes
        Sentences on what was done otherwise than usual, which casts no doubt on the gains.
    bright_field
        Which images are bright-field: ``post``, ``pre``.
    sharpness
        How sharp the images are, and which one is blurred before all subtractions; None where that
        is not known or was not to be looked at.
    """

    default: str
    methods: dict[str, MethodResult]
    status: str = "ok"
    reasons: tuple[str, ...] = ()
    sharpness: Sharpness | None = None
    notes: tuple[str, ...] = ()
    bright_field: tuple[str, ...] = ()

    @property
    def blur(self) -> Blur | None:
        """What is applied to one image before the subtraction; None for nothing."""
        return None if self.sharpness is None else self.sharpness.blur

    @property
    def default_result(self) -> MethodResult:
        """Result of the default method."""
        return self.methods[self.default]

    @property
    def gain_map(self) -> GainMap | None:
        """The gain map of the method that has one; there is one such method at most."""
        maps = (result.gain_map for result in self.methods.values())
        return next((one for one in maps if one is not None), None)

    @classmethod
    def make_failed(cls, reason: str, settings: ScaleSettings | None = None) -> Scale:
        """Return the scale of a pair that was refused: every method failed for ``reason``."""
        settings = settings or ScaleSettings()
        methods = {name: MethodResult.make_failed(reason) for name in settings.names}
        roles = settings.bright_field
        reasons = (reason, *bright_field.check_roles(roles))
        return cls(settings.first, methods, "failed", reasons, bright_field=roles)

    def save(self, path: Path | str) -> None:
        """Write ``scale.json``, complete or not at all; equal results give equal bytes."""
        write_json(Path(path), {"version": _VERSION, **self.to_json()})

    def to_json(self) -> dict[str, Any]:
        """Return what ``scale.json`` says of it."""
        return {
            "status": self.status,
            "reasons": to_json(self.reasons),
            "notes": to_json(self.notes),
            "default": self.default,
            "sharpness": to_plain(self.sharpness),
            "methods": {name: result.to_json() for name, result in self.methods.items()},
            **({"bright_field": list(self.bright_field)} if self.bright_field else {}),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Scale:
        """Read what `to_json` gave, without gain maps; RecordError if it is none."""
        own = to_record(content, _Entry)
        if own.default not in own.methods:
            raise RecordError(f"default: there is no method {own.default}")
        blur = own.sharpness and own.sharpness.blur
        if blur and not 0 < blur.width_px <= imaging.WIDEST:
            raise RecordError(f"sharpness: nothing is blurred by {blur.width_px} px")
        methods = {k: MethodResult.from_json(v) for k, v in own.methods.items()}
        rest = own.status, own.reasons, own.sharpness, own.notes, own.bright_field
        return cls(own.default, methods, *rest)

    @classmethod
    def load(cls, path: Path | str, light: Path | None = None) -> Scale:
        """Read ``scale.json``, and the gain map from ``light`` (``gain_map.npz``) if it is given.

        StoreError if a file is damaged or from another version.
        """
        try:
            content = read_record(path, dict[str, Any])
            to_record(content, _Version)
            scale = cls.from_json(content)
        except RecordError as error:
            raise make_damage_error(path, error) from error
        for name, found in scale.methods.items():
            if light is not None and found.details.get("gain_map"):
                scale.methods[name] = found.add_light(imaging.load_gain_map(light), light)
        return scale
