"""Writing what happens in a job or a run."""
