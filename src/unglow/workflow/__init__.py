"""Configuration, samples, memory of jobs, preflight and stages: all that the rules need."""
