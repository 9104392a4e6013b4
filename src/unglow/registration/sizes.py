"""Sizes that both the result and the memory of registration depend on."""

FEATURE_PX = 1 << 18
"""Features are searched on at most so many px at a time."""
FIELD_POINTS = 50_000
"""About as many control points and blocks a displacement field may have."""
