"""What the files of attempts and runs tell, joined and summed."""
