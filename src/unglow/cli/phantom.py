"""The `unglow phantom` command: its options and what it runs."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import ConfigError
from unglow.phantom.spec import KINDS, PhantomSpec, check_names

if TYPE_CHECKING:
    from collections.abc import Callable

_DEFAULT = PhantomSpec()
# Option, metavariable and help of every setting that is one number.
_NUMBERS: tuple[tuple[str, str, str], ...] = (
    ("rotation_deg", "DEG", "rotation of pre against post, degrees, clockwise"),
    ("scale", "S", "magnification of pre against post"),
    ("shear", "S", "shear of pre against post"),
    ("deform_px", "PX", "greatest smooth deformation on top of that, px"),
    ("deform_wavelength_px", "PX", "shortest wavelength of the deformation, px"),
    ("gain", "G", "brightness of the background in post, times that in pre"),
    ("offset_pre", "LEVELS", "camera offset of pre, grey levels"),
    ("offset_post", "LEVELS", "camera offset of post, grey levels"),
    ("shading", "FRACTION", "greatest relative difference in illumination"),
    ("microbes_per_mpx", "N", "microbes (only in post) per 1e6 px of section"),
    ("grains_per_mpx", "N", "bright grains (in both) per 1e6 px of section"),
    ("electrons_per_level", "N", "photoelectrons per grey level, 0 for no shot noise"),
    ("read_noise", "LEVELS", "read noise of the camera, grey levels"),
    ("bleed", "FRACTION", "fraction of the post signal that also shows in the red channel"),
    ("blur_pre_px", "PX", "blur of pre out of focus, standard deviation"),
    ("blur_post_px", "PX", "blur of post out of focus, standard deviation"),
    ("pixel_size_um", "UM", "pixel size in the header of post, micrometres"),
)


_SLIDES = (
    ("--cycles", "K", int, 2, "cycles of imaging"),
    (
        *("--distinct-cycles", "K", int, 0),
        "cycles after the first K repeat the pixels of earlier ones, which are stored once",
    ),
    (
        *("--cycle-rotation-deg", "DEG", float, 0.03),
        "rotation of each cycle against the one before, degrees",
    ),
    (
        *("--cycle-scale", "S", float, 1.0),
        "how much smaller the section is in each cycle than in the one before",
    ),
    (
        *("--gain-error", "FRACTION", float, -0.1),
        "relative difference of gains from the ratio of exposure times",
    ),
    (
        *("--offset-marker", "COUNTS", float, 130.0),
        "camera offset of later cycles; that of the first is 100",
    ),
)
"""Option, metavariable, type, default and help of the settings of slides that are one number."""


_FEW = ("raw", "sample", "dye", "pairs", "seed", "size", "gain", "channels")
"""Options that ``--help`` shows; ``--help-all`` shows all of them."""


class _HelpAll(argparse.Action):
    """Print all options, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        every = argparse.ArgumentParser(prog=parser.prog)
        _add_all(every, every.add_argument)
        every.print_help()
        parser.exit()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow phantom` to a parser."""
    parser.usage = "unglow phantom [OPTION ...]"

    def add(option: str, *, help: str, **more: Any) -> object:  # noqa: A002 (its name)
        hidden = option.removeprefix("--") not in _FEW
        return parser.add_argument(option, help=argparse.SUPPRESS if hidden else help, **more)

    about = "show all options"
    parser.add_argument("--help-all", action=_HelpAll, nargs=0, help=about)
    _add_all(parser, add)


def _add_all(parser: argparse.ArgumentParser, add: Callable[..., object]) -> None:
    parser.description = (
        "Make realistic pre/post pairs of any size whose registration, gain and microbes are "
        "known exactly. Writes <raw>/<sample>/<sample>_pre_<dye>.tif, ..._post_<dye>.tif and "
        "<sample>_<dye>_truth.json. The same options give the same pixels."
    )
    add("--raw", type=Path, default=Path("raw"), help="directory of raw images (default: raw)")
    add("--sample", default="phantom", help="sample name (default: phantom)")
    add("--dye", default="SYTO9", help="dye name (default: SYTO9)")
    about = "make N pairs, <sample>_01, <sample>_02, ... with seeds that follow (default: 1)"
    add("--pairs", type=int, default=1, metavar="N", help=about)
    add("--seed", type=int, default=_DEFAULT.seed, help="seed of the first pair (default: 0)")
    about = "post image: rows x columns in px, such as 25000x30000 (default: 2048x2048)"
    add("--size", type=_size, default=_DEFAULT.shape, metavar="ROWSxCOLS", help=about)
    about = "pre image: rows x columns in px (default: 2 %% taller and 3 %% wider than post)"
    add("--pre-size", type=_size, metavar="ROWSxCOLS", help=about)
    about = "shift of pre against post, to the right and down, px (default: 100 60)"
    add(
        "--shift-px", type=float, nargs=2, default=_DEFAULT.shift_px, metavar=("X", "Y"), help=about
    )
    for name, metavar, text in _NUMBERS:
        default = getattr(_DEFAULT, name)
        about = f"{text} (default: {default:g})"
        add(f"--{name.replace('_', '-')}", type=float, default=default, metavar=metavar, help=about)
    about = (
        "pixel size in the header of pre, micrometres (default: that of post / --scale, which is "
        "true)"
    )
    add("--pre-pixel-size-um", type=float, metavar="UM", help=about)
    about = "pixel type; uint16 holds 64 counts per grey level (default: uint8)"
    add("--dtype", choices=("uint8", "uint16"), default=_DEFAULT.dtype, help=about)
    about = "RGB with the signal in green, or one channel (default: --rgb)"
    add("--rgb", action=argparse.BooleanOptionalAction, default=_DEFAULT.rgb, help=about)
    layouts = ("tiles", "strips", "single-strip", "jpeg-tiles")
    about = "layout of the TIFF files; jpeg-tiles is lossy (default: tiles)"
    add("--layout", choices=layouts, default="tiles", help=about)
    compressions = ("zlib", "lzw", "zstd", "none")
    about = "compression of the TIFF files, except jpeg-tiles (default: zlib)"
    add("--compression", choices=compressions, default="zlib", help=about)
    add("--workers", type=int, default=1, metavar="N", help="threads (default: 1)")
    about = (
        f"spoil places of post, or all of it: {', '.join(KINDS)} (see docs/commands.md); the truth "
        "has their polygons"
    )
    damage = "KIND:SIZE[:STRENGTH[:WIDTH]],..."
    add("--damage", default=_DEFAULT.damage, metavar=damage, help=about)
    about = "seed of the places and forms of the damage (default: 0)"
    add("--damage-seed", type=int, default=_DEFAULT.damage_seed, metavar="N", help=about)
    parser.epilog = (
        "With --channels a slide is made instead of pairs: <raw>/<sample>/<sample>.ome.tif "
        "(uint16), markers.csv and <sample>_truth.json. Of the options for pairs it takes --raw, "
        "--sample, --seed, --size, --pixel-size-um, --deform-px and --deform-wavelength-px (of "
        "each cycle but the first), --workers, --damage and --damage-seed (KIND:SIZE@CYCLE spoils "
        "all channels of this cycle; without it, of the last)."
    )
    _add_slide(add)


def _add_slide(add: Callable[..., object]) -> None:
    add("--channels", type=int, metavar="N", help="channels: nuclei, backgrounds and markers")
    for option, metavar, kind, default, text in _SLIDES:
        about = f"{text} (default: {default:g})"
        add(option, type=kind, default=default, metavar=metavar, help=about)
    about = "shift of each cycle against the one before, px (default: 3.4 -2.1)"
    shift = (3.4, -2.1)
    add("--cycle-shift-px", type=float, nargs=2, default=shift, metavar=("X", "Y"), help=about)
    about = (
        "2: the ratio of two changes from cycle to cycle, the last cycle shows the backgrounds "
        "once more, and each marker has two (default: 1)"
    )
    add("--fluorophores", type=int, choices=(1, 2), default=1, help=about)
    about = "cycles in which each of two fluorophores falls to 1/e (default: 4 40)"
    falls = (4.0, 40.0)
    add("--bleach-cycles", type=float, nargs=2, default=falls, metavar=("A", "B"), help=about)


def run(args: argparse.Namespace) -> int:
    """Make the pairs that the options ask for; return the exit status, 0.

    Raises
    ------
    ConfigError
        If an option is out of range.
    """
    if not 1 <= args.pairs <= 9999:
        raise ConfigError(f"--pairs is {args.pairs}, but must be from 1 to 9999.")
    if args.workers < 1:
        raise ConfigError(f"--workers is {args.workers}, but must be at least 1.")
    if args.channels is not None:
        return _run_slide(args)
    spec = spec_of(args)
    # Late: what it imports takes longer than everything above.
    from unglow.phantom.pair import make_pair  # noqa: PLC0415 (see above)

    for n in range(args.pairs):
        digits = max(2, len(str(args.pairs)))
        make_pair(
            replace(spec, seed=spec.seed + n),
            args.raw,
            args.sample if args.pairs == 1 else f"{args.sample}_{n + 1:0{digits}d}",
            args.dye,
            layout=args.layout.replace("-", " "),
            compression=None if args.compression == "none" else args.compression,
            workers=args.workers,
        )
    return 0


def _run_slide(args: argparse.Namespace) -> int:
    from unglow.phantom.slide import make_slide  # noqa: PLC0415 (see `run`)
    from unglow.phantom.slide_spec import SlideSpec  # noqa: PLC0415

    check_names(args.sample, "slide")
    x, y = args.cycle_shift_px
    first, second = args.bleach_cycles
    spec = SlideSpec(
        shape=args.size,
        channels=args.channels,
        cycles=args.cycles,
        distinct=args.distinct_cycles,
        shift_px=(x, y),
        rotation_deg=args.cycle_rotation_deg,
        scale=args.cycle_scale,
        deform_px=args.deform_px,
        deform_wavelength_px=args.deform_wavelength_px,
        fluorophores=args.fluorophores,
        bleach_cycles=(first, second),
        gain_error=args.gain_error,
        offset=args.offset_marker,
        pixel_size_um=args.pixel_size_um,
        seed=args.seed,
        damage=args.damage,
        damage_seed=args.damage_seed,
    )
    make_slide(spec, args.raw, args.sample, workers=args.workers)
    return 0


def spec_of(args: argparse.Namespace) -> PhantomSpec:
    """Return the specification that the options ask for."""
    x, y = args.shift_px
    return PhantomSpec(
        shape=args.size,
        pre_shape=args.pre_size,
        shift_px=(x, y),
        dtype=args.dtype,
        rgb=args.rgb,
        seed=args.seed,
        pre_pixel_size_um=args.pre_pixel_size_um,
        damage=args.damage,
        damage_seed=args.damage_seed,
        **{name: getattr(args, name) for name, _, _ in _NUMBERS},
    )


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)\s*[xX×]\s*(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not ROWSxCOLS, such as 2048x1800")
    return int(match[1]), int(match[2])
