"""Pages: the report of a results directory, and the live page of a run."""
