"""Running one job safely: context, memory limit, watchdog, retries, and what is left of runs."""
