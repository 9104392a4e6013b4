"""Accuracy of gain, offset, gain map, noise and candidates against the truth of made pairs."""
