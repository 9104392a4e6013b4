"""The focus of both images: how sharp they are, and making them match."""
