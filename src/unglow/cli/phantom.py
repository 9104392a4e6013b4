"""The `unglow phantom` command: its options and what it runs."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import ConfigError
from unglow.phantom.spec import PhantomSpec, check_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unglow.phantom.slide_spec import SlideSpec

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
    ("blur_post_px", "PX", "blur of post out of focus, standard deviation"),
    ("pixel_size_um", "UM", "pixel size in the header of post, micrometres"),
)


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

    parser.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all options")
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
    about = "shift of pre against post, to the right and down, px (default: 100 60)"
    add(
        "--shift-px", type=float, nargs=2, default=_DEFAULT.shift_px, metavar=("X", "Y"), help=about
    )
    for name, metavar, text in _NUMBERS:
        default = getattr(_DEFAULT, name)
        about = f"{text} (default: {default:g})"
        add(f"--{name.replace('_', '-')}", type=float, default=default, metavar=metavar, help=about)
    about = "pixel type; uint16 holds 64 counts per grey level (default: uint8)"
    add("--dtype", choices=("uint8", "uint16"), default=_DEFAULT.dtype, help=about)
    about = "RGB with the signal in green, or one channel (default: --rgb)"
    add("--rgb", action=argparse.BooleanOptionalAction, default=_DEFAULT.rgb, help=about)
    add("--workers", type=int, default=1, metavar="N", help="threads (default: 1)")
    add("--channels", type=int, metavar="N", help="channels: nuclei, backgrounds and markers")
    add("--cycles", type=int, default=2, metavar="K", help="cycles of imaging (default: 2)")
    parser.epilog = (
        "With --channels a slide is made instead of pairs: <raw>/<sample>/<sample>.ome.tif "
        "(uint16), markers.csv and <sample>_truth.json. Of the options for pairs it takes --raw, "
        "--sample, --seed, --size, --pixel-size-um, --deform-px, --deform-wavelength-px and "
        "--workers. The first cycle is not deformed."
    )


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
    # Late: what they import takes longer than everything above.
    if args.channels is not None:
        from unglow.phantom.slide import make_slide  # see above

        check_names(args.sample, "slide")
        make_slide(slide_spec(args), args.raw, args.sample, workers=args.workers)
        return 0
    from unglow.phantom.pair import make_pair  # see above

    for sample, spec in pair_specs(args):
        make_pair(spec, args.raw, sample, args.dye, workers=args.workers)
    return 0


def slide_spec(args: argparse.Namespace) -> SlideSpec:
    """Return the slide that the options ask for."""
    from unglow.phantom.slide_spec import SlideSpec  # see `run`

    return SlideSpec(
        shape=args.size,
        channels=args.channels,
        cycles=args.cycles,
        deform_px=args.deform_px,
        deform_wavelength_px=args.deform_wavelength_px,
        pixel_size_um=args.pixel_size_um,
        seed=args.seed,
    )


def pair_specs(args: argparse.Namespace) -> Iterator[tuple[str, PhantomSpec]]:
    """Yield sample and specification of each pair that the options ask for."""
    x, y = args.shift_px
    spec = PhantomSpec(
        shape=args.size,
        shift_px=(x, y),
        dtype=args.dtype,
        rgb=args.rgb,
        seed=args.seed,
        **{name: getattr(args, name) for name, _, _ in _NUMBERS},
    )
    digits = max(2, len(str(args.pairs)))
    for n in range(args.pairs):
        sample = args.sample if args.pairs == 1 else f"{args.sample}_{n + 1:0{digits}d}"
        yield sample, replace(spec, seed=spec.seed + n)


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)\s*[xX×]\s*(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not ROWSxCOLS, such as 2048x1800")
    return int(match[1]), int(match[2])
