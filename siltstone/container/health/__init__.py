"""How long-term storage, its room and the clock do, and what is reported of it."""
