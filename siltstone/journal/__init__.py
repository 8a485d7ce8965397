"""The system journal: batches, checkpoints, replay, and the pinned layouts of system segments."""
