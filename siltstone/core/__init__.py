"""Words, records, contracts, and the wrappers around long-term storage; no service."""
