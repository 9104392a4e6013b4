"""What people tell back about a pair: decisions on candidates, and regions, in files of theirs."""

REVIEW = "review.csv"
"""Decisions, beside the candidates.csv that they are about."""
REGIONS = "regions.geojson"
"""What was drawn, in the directory of the pair."""
