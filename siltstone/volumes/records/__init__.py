"""Rows of a client's folder and objects of a place, as bytes."""
