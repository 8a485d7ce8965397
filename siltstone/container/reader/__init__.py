"""A container that is read without owning it."""
