"""Records of attempts and runs, read from their files, joined and summed."""
