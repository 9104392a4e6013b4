"""Registration: the map from post to pre, from statistics of blocks, with its error."""
