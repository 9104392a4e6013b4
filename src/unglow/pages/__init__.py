"""The report, the live page, the viewer and the app: a wing that nothing else needs."""
