"""Damage of phantoms: spoilt places and faults of entire images, whose truth is known."""
