"""Changes of segments and tables in one commit: transactions, concatenation, renames."""
