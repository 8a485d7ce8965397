"""Storage, logs, files and networks that fail as they are told to."""
