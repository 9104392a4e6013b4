"""Which files belong together: pairs of a pre-stain and a post-stain image per sample and dye."""
