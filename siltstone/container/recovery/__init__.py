"""Continuing after tier 1 or chunks were lost."""
