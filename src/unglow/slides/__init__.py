"""Slides of many channels: markers and backgrounds in one image or one per cycle."""
