"""Offsets between the strips of a line scanner."""
