"""Reasons of a verdict: one table of sentences, the numbers behind each, and what helps.

A stage finds a fact and calls `explain` with its key. A reason with ``is_note`` casts no doubt on
the result; any other one makes a pair, a marker or a cycle ``suspect`` (or says why it failed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Place = tuple[float, float]
WHY = "why"
"""Column of rows that pages show, with what is behind their reasons and notes: `list_details`."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table; its texts are templates of `str.format`.

    Attributes
    ----------
    sentence
        At most 20 plain words.
    numbers
        What was measured, and the setting it is compared with; pages fold it.
    help
        What helps; may be empty.
    is_note
        Whether it is no doubt.
    """

    sentence: str
    numbers: str = ""
    help: str = ""
    is_note: bool = False


_OVERLAY = "Compare both images in the viewer (overlay, blink)."
_LANDMARKS = "If they show the same place, mark three points in both (Landmarks in the viewer)."
_COPY_AGAIN = "Copy the file again from its source, or write it again."
_CHECK_EXPORT = "Check which files were exported."
_OFFSET = "Use the linear method, or subtract the offset from both images."

TABLE = {
    # --- no map
    "unlike": Kind(
        "The two images do not match. Do they show the same place?",
        "Searched at any position and rotation, with pre {low:.2f} to {high:.2f} times as large "
        "as post in px (setting max_scale).",
        _LANDMARKS,
    ),
    "mirrored": Kind(
        "The pre-stain image is a mirror image of the post-stain image.",
        help="If the section was turned over, set mirror: true. If not, export the file again.",
    ),
    "scale_beyond": Kind(
        "The best map needs a magnification outside the accepted range.",
        "It would scale the section by {scale:.2f}; {low:.2f} to {high:.2f} is accepted (setting "
        "max_scale).",
    ),
    "sheared": Kind(
        "The best map stretches one direction far more than the other, which no microscope does.",
        "{percent:.0f} % more.",
    ),
    "small_overlap": Kind(
        "The two images have too little of the section in common.",
        "{percent:.0f} % of the section lies inside the pre-stain image, {least:.0f} % are asked "
        "for (setting min_overlap).",
    ),
    "few_blocks": Kind(
        "The two images have too few places with texture in common.",
        "{measured} sample blocks with texture, {least} are needed.",
    ),
    "few_alike": Kind(
        "The images show different structures: other sections or places, or too little texture.",
        "{agreeing} of {measured} sample blocks show the same at full resolution.",
        _LANDMARKS,
    ),
    "headers_beyond": Kind(
        "By their pixel sizes, the images differ more in magnification than is searched.",
        "The headers say {post:.4g} um per px for post and {pre:.4g} for pre: the section is "
        "{scale:.2f} times as large in pre.",
        "If they are right, scale one image to the pixel size of the other{wider}.",
    ),
    # --- a map that may be wrong
    "map_error": Kind(
        "Some places are not aligned (over {limit:g} px off).",
        "The map is off by about {error:.1f} px or more in 5 % of the section (setting "
        "suspect_px: {limit:g}).",
        _OVERLAY,
    ),
    "few_agree": Kind(
        "Few places confirm that the images are aligned.",
        "{agreeing} of {measured} sample blocks agree with the map.",
        _OVERLAY,
    ),
    "uncovered": Kind(
        "A part of the section has nothing nearby that confirms the alignment.",
        "{percent:.0f} % of the section.",
        _OVERLAY,
    ),
    "rival": Kind(
        "Another position matches nearly as well, as happens with repeating patterns.",
        "Score of the map over that of its rival: {margin:.2f}.",
        _OVERLAY,
    ),
    "scale_limit": Kind(
        "The magnification found is at the limit of what is accepted.",
        "Scale {scale:.3f}.",
        "If the images really differ that much, set max_scale higher.",
    ),
    "stretched": Kind(
        "The map stretches one direction more than the other, as few microscopes do.",
        "{percent:.1f} % more.",
        _OVERLAY,
    ),
    "way_back": Kind(
        "Aligning post to pre does not give the same map as aligning pre to post.",
        "They differ by more than {miss:.1f} px in 5 % of the section (setting suspect_px: "
        "{limit:g}).",
        _OVERLAY,
    ),
    "torn": Kind(
        "In some places the section moved by itself: it may be torn, or there is dirt.",
        "{count} blocks and their neighbours are more than {limit:g} px from where the map puts "
        "them (setting suspect_px).",
    ),
    "area": Kind(
        "The map stretches or shrinks parts of the section a lot: it may be torn or folded.",
        "Areas change by factors of {low:.2f} to {high:.2f}.",
        _OVERLAY,
    ),
    "headers": Kind(
        "The pixel sizes in the files contradict the images: lengths in um may be wrong.",
        "The headers say {post:.4g} um per px for post and {pre:.4g} for pre, which makes the "
        "section {scale:.2f} times as large in pre. In the images it is {found:.2f} times.",
        _OVERLAY,
    ),
    "coarse_pre": Kind(
        "The pre-stain image is so coarse that fine background stays in the difference.",
        "The section is {scale:.2f} times as large in pre. Numbers of the map count in px of "
        "{side} x {side} px of post.",
    ),
    "landmark_missed": Kind(
        "The map misses landmark {name}.",
        "It misses by {most:.0f} px, more than clicks are off by. The median of {count} landmarks "
        "is {median:.0f} px.",
        "Correct or remove the landmark if it is wrong, and check the overlay.",
    ),
    "landmarks_scale": Kind(
        "The landmarks need a magnification outside the accepted range.",
        "Scale {scale:.2f}; {low:.2f} to {high:.2f} is accepted (setting max_scale).",
    ),
    "landmarks_failed": Kind(
        "The landmarks led to no map either.",
        "The map that fits them best misses landmark {name} by {most:.0f} px.",
        "Check whether each landmark is the same place in both images.",
    ),
    "initial_unused": Kind(
        "The initial transform led to no map, so that another one was searched.",
        "At the centre of the image they differ by {off:.0f} px.",
        _OVERLAY,
    ),
    # --- a map of another dye, or none
    "source_failed": Kind(
        "The map was to come from {dye}, whose registration failed.", "{why}"
    ),
    "source_suspect": Kind("The map is that of {dye}, which is suspect itself: see its reasons."),
    "other_frame": Kind(
        "The map was to come from {dye}, whose {role}-stain image has another size.",
        "{theirs} px and not {own} px.",
        "Only images of the same frame share a map.",
    ),
    "sizes_differ": Kind(
        "With register.model: none, post and pre must have the same size.",
        "Post has {theirs} px and pre {own} px.",
        "Set register.model: auto.",
    ),
    "undecided": Kind(
        "The images neither confirm nor refute {map}.",
        "{agreeing} of {measured} sample blocks say anything about it.",
        _OVERLAY,
    ),
    "moved": Kind(
        "The images do not lie where {map} puts them.",
        "They are off by {length:.2f} px (x {x:+.2f}, y {y:+.2f}, error {error:.2f}; setting "
        "suspect_px: {limit:g}).",
        "{remedy}",
    ),
    "elsewhere": Kind(
        "The images match better elsewhere than where {map} puts them.", help="{remedy}"
    ),
    # --- pixels that are missing or cannot be computed with
    "no_pixels": Kind("{file} holds no pixels.", "None of its {units} is stored.", _COPY_AGAIN),
    "one_value": Kind(
        "Most {name}-stain pixels have no value, and all others are equal.",
        "{percent:.0f} % are NaN, infinite or beyond 3.4e38.",
        "Divide both images by a constant, or export them again.",
    ),
    "too_large": Kind(
        "Values of the {name}-stain image are too large to be computed with.",
        "They reach {largest:.2g}; at most {limit:.0e} is possible.",
        "Divide both images by the same constant.",
    ),
    "too_fine": Kind(
        "Values of the {name}-stain image differ too little for 32-bit floating point.",
        "They are {low:.10g} to {high:.10g}, which is {steps:.0f} steps.",
        "Subtract the same offset from both images.",
    ),
    "no_values": Kind(
        "Many {name}-stain pixels have no value (NaN or infinite).",
        "{percent:.0f} %; no block with one of them is compared.",
        "Fill single ones by their neighbours.",
    ),
    "not_stored": Kind(
        "Parts of {file} are missing.", "{what}.", "Copy it again if it was cut off."
    ),
    "gaps": Kind(
        "Parts of {file} are missing, and are left out.",
        "{what}: {share}.",
        "Copy it again if it was cut off.",
    ),
    "large_gaps": Kind("Too much of {file} is missing.", "{what}: {share}.", _COPY_AGAIN),
    # --- gain
    "copy": Kind(
        "Post and pre are one exposure: one is probably a copy of the other.",
        "{why}",
        _CHECK_EXPORT,
    ),
    "rounding": Kind(
        "Post and pre differ by rounding alone: a copy, or too few grey levels.",
        help="Check which files were exported, or export more bits.",
    ),
    "pedestal": Kind(
        "Both images probably have a camera offset, which makes the ratio wrong.",
        "Above the darkest pixels post grows {growth:.3g} times as fast as pre; the gain is "
        "{gain:.3g}.",
        _OFFSET,
    ),
    "negative": Kind(
        "The dark pixels of {name} are not near 0, which makes every ratio wrong.",
        "They are near {level:g}.",
        _OFFSET,
    ),
    "saturated": Kind(
        "The stained image is probably saturated, and {wrong} too low.",
        "{percent:.{digits}f} % of its pixels have its largest value ({top:g}).",
        "Expose it shorter.",
    ),
    "scatter": Kind(
        "The background could not be removed fully: it differs before and after staining.",
        "What is left scatters {spread:.2g} times as much as noise explains: focus, bleaching, or "
        "stain everywhere.",
        "Look at the difference before you trust faint candidates.",
    ),
    "noise_unknown": Kind("The noise of the images is not known.", "{why}."),
    "other_method": Kind("{first} gave no gain, so {default} is used instead.", "{why}"),
    "unused_method": Kind("{name}, which is not used, gave no gain.", "{why}", is_note=True),
    "light_kept": Kind(
        "Uneven light was not corrected: the correction would have removed stain.",
        "The gain map would go from {low:.2f} to {high:.2f}, more than uneven light explains.",
        is_note=True,
    ),
    "mixed_light": Kind(
        "Only the {role}-stain image is bright-field, so that the difference means nothing.",
        help="Give two images of one kind, or set `light` if this is not so.",
    ),
    "bright_field": Kind(
        "Bright-field pair: the difference is negative where post absorbs more; no candidates are "
        "searched.",
        "Dark is signal on a bright background in both images. Gain and difference are those of "
        "transmitted light.",
        "If this is fluorescence, set `light: fluorescence`.",
        is_note=True,
    ),
    "white_glass": Kind(
        "The glass is white: what absorbs very little is lost there.",
        "{percent:.0f} % of the post pixels have its largest value ({top:g}).",
        is_note=True,
    ),
    # --- markers and cycles of a slide
    "exposure_used": Kind(
        "The measured gain differs from exposure times, by which the background was subtracted.",
        "Measured {gain:.3g} ({low:.3g} to {high:.3g}), expected {expected:.3g}; {used:.3g} was "
        "subtracted (method {method}).",
        "Lamp, filters or bleaching differ, or an exposure time is wrong. To subtract the measured "
        "gain, put linear first in scale.methods.",
    ),
    "exposure_far": Kind(
        "The measured gain, which was subtracted, is far from what exposure times give.",
        "Measured {gain:.3g} ({low:.3g} to {high:.3g}), expected {expected:.3g}.",
        "An exposure time or the background channel is wrong, or stain is all over the section.",
    ),
    "exposure_differs": Kind(
        "The measured gain, which was subtracted, differs from exposure times.",
        "Measured {gain:.3g} ({low:.3g} to {high:.3g}), expected {expected:.3g}.",
        is_note=True,
    ),
    "gains_far": Kind(
        "The fitted gains are far from what exposure times and cycles give.",
        "Fitted for {names}: {fitted}; expected {expected}. The {used} ones were used.",
    ),
    "gains_differ": Kind(
        "The fitted gains differ from what exposure times and cycles give.",
        "Fitted for {names}: {fitted}; expected {expected}. The {used} ones were used.",
        is_note=True,
    ),
    "too_similar": Kind(
        "The backgrounds {names} are too similar: only their sum means something.",
        "{noise:.0%} of the part of one that the others lack is noise. Together they take "
        "{total:.4g} ± {half:.2g} grey levels on average, which {known}.",
        is_note=True,
    ),
    "shifted": Kind(
        "The background is shifted against this marker.",
        "By {length:.2f} px (x {x:+.2f}, y {y:+.2f}, error {error:.2f}, {blocks} blocks; setting "
        "suspect_px: {limit:g}).",
        "Its channel is shifted against the one its cycle was registered on, or something moved. "
        "Look at what is left of edges.",
    ),
    "loop": Kind(
        "The maps of cycles {cycle} and {other} do not agree. Compare their nuclei.",
        "Going to {other} over {cycle} misses by {length:.2f} px (setting suspect_px: {limit:g}).",
    ),
    "background_lost": Kind(
        "Subtracted without {names}: the cycle has no map.",
        help="See the registration of the cycles.",
    ),
    # --- spoilt places and the search
    "spoilt": Kind(
        "Much of the section is spoilt, and left out.",
        "{percent:.0f} % ({parts}); {most:g} % is accepted (setting detect.max_spoilt).",
        "Look at it, and image the section again if you can.",
    ),
    "cycle_spoilt": Kind(
        "Much of the section is spoilt in cycle {cycle}.",
        "{percent:.0f} % ({parts}); {most:g} % is accepted (setting detect.max_spoilt).",
        "Look at it, and image the section again if you can.",
    ),
    "swapped": Kind(
        "Far more is darker in post than brighter: post and pre look swapped.",
        "{dark} against {bright} sources above a signal-to-noise ratio of {ends:g}.",
        "Check which file was imaged first.",
    ),
    "none_listed": Kind(
        "Nothing is listed: {dark} places are darker after staining, as strong as the bright ones.",
        "Above a signal-to-noise ratio of {ends:g}; the strongest has {ratio:.3g}.",
        "Exclude what only one image shows as a region, or image the section again.",
    ),
    "high_threshold": Kind(
        "Only very bright spots are listed: dark spots elsewhere are almost as strong.",
        "The threshold is a signal-to-noise ratio of {threshold:.3g} (4 to 6 is usual); the "
        "strongest dark spot has {ratio:.3g}.",
        "One image was processed (gamma, sharpening), or the images show different structures.",
    ),
    "dark_cluster": Kind(
        "In one place the images differ for another reason than stain. Check the candidates there.",
        "{count} of the strongest dark spots lie within {radius:.0f} px.",
    ),
    "dark_end": Kind(
        "The stained image has lost its darkest grey levels, so that faint candidates may be "
        "false.",
        "{percent:.2g} % of the section should be darker than its darkest pixels.",
        "Export it with a lower black level.",
    ),
    "few_levels": Kind(
        "The stained image has too few grey levels: the false-discovery rate is not known.",
        "Its noise is {steps:.2g} grey levels.",
        "Expose it longer, or export more bits.",
    ),
    "no_control": Kind(
        "No unstained control could be searched: false discoveries are estimated from this pair "
        "alone.",
    ),
}  # fmt: skip


class Reason(str):
    """A sentence of the table with what is behind it; it is that sentence wherever text is.

    Attributes
    ----------
    key
        In `TABLE`.
    numbers, help
        Texts as in `Kind`, filled.
    at
        (x, y) of the place to look at, px of post; None for none.
    """

    key: str
    numbers: str
    help: str
    at: Place | None

    __slots__ = ("at", "help", "key", "numbers")

    def to_json(self) -> dict[str, Any]:
        """Return what result files and pages have of it."""
        about = {"key": self.key, "sentence": str(self), "numbers": self.numbers, "help": self.help}
        return {**about, "at": None if self.at is None else list(self.at)}


SHAPE = (str, {"key": str, "sentence": str, "numbers": str, "help": str,
               "at": (None, [float, float])})  # fmt: skip
"""A reason in a result file, as `unglow.core.files.check_shape` takes it."""


def explain(key: str, **values: Any) -> Reason:
    """Return the reason of a key: values for its templates, and ``at``, (x, y) in px of post."""
    kind, at = TABLE[key], values.pop("at", None)
    sentence, numbers = kind.sentence.format(**values), kind.numbers.format(**values)
    return _make(key, sentence, numbers, kind.help.format(**values), at)


def _make(key: str, sentence: str, numbers: str, help_: str, at: Place | None) -> Reason:
    made = Reason(sentence)
    made.key, made.numbers, made.help = key, numbers, help_
    made.at = None if at is None else (round(float(at[0]), 1), round(float(at[1]), 1))
    return made


def split_notes(reasons: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return those that cast doubt, plain sentences with them, and those that are notes."""
    parts: tuple[list[str], list[str]] = ([], [])
    for one in dict.fromkeys(reasons):
        parts[isinstance(one, Reason) and TABLE[one.key].is_note].append(one)
    return parts


def list_details(reasons: Iterable[str]) -> list[dict[str, Any]]:
    """Return those of the table, as pages fold what is behind them."""
    return [one.to_json() for one in dict.fromkeys(reasons) if isinstance(one, Reason)]


def to_json(reasons: Iterable[str]) -> list[str | dict[str, Any]]:
    """Return reasons as result files have them; refusals in words of their own are text."""
    return [one.to_json() if isinstance(one, Reason) else one for one in reasons]


def from_json(reasons: Iterable[Any]) -> list[str]:
    """Read what `to_json` gave."""
    return [
        one if isinstance(one, str)
        else _make(one["key"], one["sentence"], one["numbers"], one["help"], one["at"])
        for one in reasons
    ]  # fmt: skip
