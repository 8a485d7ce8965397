"""Words, records, contracts, and on top of them the segment storage, and no service."""
