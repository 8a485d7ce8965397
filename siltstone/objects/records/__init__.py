"""What keyspaces persist: keys and values of ledger rows, records of the value log, footers."""
