"""Gain and offset of the background, by several scale methods."""
