"""The work of each rule, from files to files."""
