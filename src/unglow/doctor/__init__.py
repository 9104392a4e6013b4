"""What is wrong with this machine, or would be for a run: checks, each with what helps."""
