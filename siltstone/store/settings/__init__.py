"""The settings of a store: file, model, units, what is in effect."""
