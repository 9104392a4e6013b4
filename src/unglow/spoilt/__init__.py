"""Spoilt places: parts of post that show something else than background, noise and stain."""
