"""What applications hold: stores, segments and tables."""
