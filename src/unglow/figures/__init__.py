"""Figures for judging a result at a glance, drawn from small arrays only."""
