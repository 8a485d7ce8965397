"""Rules about the source itself that no linter knows."""
