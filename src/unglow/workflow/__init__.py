"""What the rules need: configuration, samples, memory of jobs, preflight, stages."""
