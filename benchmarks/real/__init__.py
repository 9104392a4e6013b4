"""Verdicts on real pixels with known truth."""
