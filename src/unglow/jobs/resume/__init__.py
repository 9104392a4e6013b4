"""Going on after Snakemake was killed: prove that nothing writes any more, unlock, run again."""
