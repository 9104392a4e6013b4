"""What came out of runs, side by side: maps, gains, candidates, pixels."""
