"""Jobs that do not measure themselves, watched by the Snakemake that starts them."""
