"""Backups: made, verified, restored, expired."""
