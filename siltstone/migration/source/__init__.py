"""Where what is migrated lies, shared by files and by legacy layouts."""
