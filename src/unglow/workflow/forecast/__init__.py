"""How long a run will take on this machine, from the times of earlier runs."""
