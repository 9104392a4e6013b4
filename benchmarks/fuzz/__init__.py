"""Damaged TIFF files by the thousand, read as the workflow reads them."""
