"""Schedulers of clusters: one client for each, and what unglow adds to their executors."""
