"""What happened: every attempt at a job and every run of Snakemake in an append-only file each.

docs/telemetry.md describes the files. This package is imported by each job before anything else,
so it and the modules that it imports load nothing heavy.
"""
