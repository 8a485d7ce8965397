"""Rewriting small and sparse chunks into fewer and fuller ones."""
