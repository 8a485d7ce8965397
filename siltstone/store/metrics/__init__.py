"""Metrics and spans for the systems that gather them."""
