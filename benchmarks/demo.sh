#!/bin/sh
# A phantom pair, the workflow on it, and how far the result is from the truth. Called by
# `make demo`, with the virtual environment's bin first on PATH; it works in demo/ of the checkout.
set -eu
checkout=$(cd "$(dirname "$0")/.." && pwd)
pair=raw/phantom/phantom
mkdir -p "$checkout/demo"
cd "$checkout/demo"

# The truth is written last: where it is, the images are whole.
if ! [ -f "${pair}_SYTO9_truth.json" ]; then
  echo "Making a phantom pair of 2048 x 2048 px in demo/raw: a pre and a post image of one section."
  unglow phantom
fi

# Errors pass the quiet options and the filter. A pipe would hide the exit status: it comes out
# through descriptor 4, while the text goes to the terminal through descriptor 3.
echo "Running the workflow on it, on all cores."
exec 3>&1
status=$(
  {
    {
      code=0
      snakemake -s ../Snakefile --nocolor --quiet rules host reason 2>&1 || code=$?
      echo "$code" >&4
    } | sed -e '/^Using /d' -e '/^Assuming /d' -e '/^Building DAG/d' -e '/^Provided /d' \
      -e '/^Rules claiming/d' -e '/^Conda environments/d' -e '/^Select jobs/d' \
      -e '/^Execute [0-9]* jobs/d' -e '/^\[.*\]$/d' \
      -e '/^Finished jobid/{N;s/^.*(Rule: \(.*\))\n\([0-9]* of [0-9]* steps.*\)/\2: \1/;}' >&3
  } 4>&1
)
exec 3>&-
if [ "$status" -ne 0 ]; then
  echo "The workflow failed; see the error above, and the logs of the jobs in demo/logs." >&2
  exit "$status"
fi

python - "$pair" <<'EOP'
import sys
from pathlib import Path

import numpy as np

from unglow import transform
from unglow.images.detection_results import read_candidates
from unglow.phantom import Truth
from unglow.photometry.gain.scale import Scale

truth = Truth.load(Path(f"{sys.argv[1]}_SYTO9_truth.json"))
results = Path("results/phantom/SYTO9")
found = transform.load(results / "transform.json")
scale = Scale.load(results / "scale.json")
rows, cols = found.post_shape
x, y = np.meshgrid(np.linspace(0, cols - 1, 64), np.linspace(0, rows - 1, 64))
points = np.stack([x.ravel(), y.ravel()], axis=1)
error = np.hypot(*(found.map(points) - truth.map(points)).T)
gain, (low, high) = scale.default_result.gain, scale.default_result.gain_ci95
candidates = read_candidates(results / "candidates.csv")
microbes = np.stack([truth.microbes.x, truth.microbes.y], axis=1)
listed = candidates.xy[candidates.is_counted]
apart = np.hypot(*(listed[:, None] - microbes[None]).T)  # (microbes, candidates), px
right, seen = (int((apart < 3).any(axis=axis).sum()) for axis in (0, 1))
print(f"""
How far from the truth, which is known for a phantom:
  registration  {np.median(error):.3f} px off (median over the image; {error.max():.3f} px at worst)
  gain          {gain:.4f} by {scale.default} (95 % interval {low:.4f} to {high:.4f}), true {truth.gain:g}
  candidates    {len(listed)}, of which {right} are microbes: {seen} of the {len(truth.microbes)} that were put into post""")
EOP

figures=demo/results/phantom/SYTO9/figures
printf '\nWhere to look (docs/results.md says how to read them):\n'
printf '  %-58s %s\n' \
  "$figures/difference.png" "post minus scaled pre: what the stain shows" \
  "$figures/candidates.png" "the candidates on it, and how many to expect per mm²" \
  "$figures/registration.png" "pre over post, before and after" \
  demo/results/summary.tsv "one row for each pair, with its status" \
  demo/results/report.html "all of it on one page, with time and memory of every job"
cat <<EOM

Every pixel of every stage, in a browser:
  cd $checkout/demo && $(dirname "$(command -v snakemake)")/unglow view

All figures with captions, in one archive to pass on:
  cd $checkout/demo && $(command -v snakemake) -s ../Snakefile --report report.zip

Your own images, as raw/<sample>/<anything with pre or post>_<dye>.tif; go to where raw/ is and type
  . $(dirname "$(command -v snakemake)")/activate
  unglow survey raw
  unglow run
EOM
