"""Whether a run fits the memory and the disk, before it begins."""
