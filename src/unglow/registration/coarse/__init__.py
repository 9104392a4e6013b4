"""The coarse search: position, rotation and scale on small images."""
