"""What is kept on disks: one file for each kind of record, each with its own codec."""
