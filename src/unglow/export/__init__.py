"""Writing results in the formats of other tools."""
