"""Damage of phantoms: what is spoilt in their images, and the truth of it."""
