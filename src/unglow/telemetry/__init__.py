"""What runs and jobs leave behind about themselves: written while they run, read at any time."""
