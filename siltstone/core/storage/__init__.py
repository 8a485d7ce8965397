"""What stands between the contract of long-term storage and those who call it."""
