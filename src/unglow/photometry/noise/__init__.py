"""The noise of both images, and what resampling makes of it."""
