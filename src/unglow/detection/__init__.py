"""Candidates: what is left of post that neither noise nor an error of the map explains."""
