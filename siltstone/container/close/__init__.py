"""The end of an owner: what it settles, what it states, and how it frees all it holds."""
