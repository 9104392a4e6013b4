"""``unglow app``: from a folder of images to results, on one page in a browser."""
