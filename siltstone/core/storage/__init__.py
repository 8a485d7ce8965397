"""What stands between the contract of long-term storage and its callers."""
