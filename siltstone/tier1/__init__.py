"""Fenced logs, one package for each, found by plugin name."""
