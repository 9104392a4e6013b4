"""Watching runs while they go on: in a terminal, below Snakemake's own lines, and in a browser.

All of it reads the telemetry that runs and jobs write (docs/telemetry.md), and nothing else.
"""
