"""What each rule does, from files to files."""
