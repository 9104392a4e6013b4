"""Results of runs, read back: the one reader that summary, report, viewer and notebooks share."""
