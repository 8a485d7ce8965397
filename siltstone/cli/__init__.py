"""The siltstone command."""
