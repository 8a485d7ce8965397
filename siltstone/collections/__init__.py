"""Collections: tables that change over time, on long-term storage alone, without an owner."""
