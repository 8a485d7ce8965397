"""Long-term storage services, one package for each, found by plugin name."""
