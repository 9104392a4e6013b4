"""Image formats and result tables, read and written block by block."""
