"""The Slurm scheduler: its commands, and jobs that it has lost."""
