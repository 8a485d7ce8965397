"""Verbs about a whole store: init, doctor, inspection, recovery."""
