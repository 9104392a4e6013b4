"""Runs in a terminal: lines, screens and status."""
