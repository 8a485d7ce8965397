"""The tests; a folder for each kind."""
