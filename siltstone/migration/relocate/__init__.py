"""Moving the chunks of a store to another storage."""
