"""Tables: entries, their index, conditional updates, and the layouts that are kept in them."""
