"""The displacement field: whether one is needed, its fit and its error."""
