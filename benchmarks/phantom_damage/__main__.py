"""`python benchmarks/phantom_damage --damage lost:250`: `unglow phantom`, with damage."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # modules shared by all benchmarks
    from phantom_damage.kinds import KINDS, DamagedPair, DamagedSlide
    from phantom_damage.pair import make_pair
    from phantom_damage.slide import make_slide
    from unglow.cli.phantom import add_arguments, pair_specs, slide_spec
    from unglow.core.errors import UnglowError

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parser.usage = "python benchmarks/phantom_damage [OPTION ...]"
    about = f"spoil places of post, or all of it: {', '.join(KINDS)} (see benchmarks/README.md)"
    parser.add_argument("--damage", default="", metavar="KIND:SIZE[:STRENGTH],...", help=about)
    parser.add_argument("--damage-seed", type=int, default=0, help="draws other places and forms")
    args = parser.parse_args()
    more = {"damage": args.damage, "damage_seed": args.damage_seed}
    try:
        if args.channels is not None:
            slide = DamagedSlide(**vars(slide_spec(args)), **more)
            make_slide(slide, args.raw, args.sample, workers=args.workers)
        else:
            for sample, spec in pair_specs(args):
                pair = DamagedPair(**vars(spec), **more)
                make_pair(pair, args.raw, sample, args.dye, workers=args.workers)
    except UnglowError as error:
        parser.error(str(error))
