#!/bin/sh
# snakemake --lint in a directory with one small pair, as the linter evaluates the whole workflow.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unglow phantom --size 256x256 >/dev/null
snakemake -s "$here/Snakefile" --lint
