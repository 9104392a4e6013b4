"""Damage of phantoms: spoilt places and faults of whole images, whose truth is known."""
