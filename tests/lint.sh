#!/bin/sh
# snakemake --lint in an empty directory: it reads all rules and no image.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
snakemake -s "$here/Snakefile" --lint
