"""The screen of a run, and jobs that others measure: a wing that nothing else needs."""
