"""Feedback of users on a pair: decisions on candidates, and regions, in their own files."""

REVIEW = "review.csv"
"""Decisions, next to the candidates.csv that they are about."""
REGIONS = "regions.geojson"
"""What was drawn, in the directory of the pair."""
