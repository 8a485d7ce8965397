"""Going on after tier 1 or chunks were lost."""
