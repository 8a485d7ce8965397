"""Plugins that cannot be used, each for another reason."""

__all__: list[str] = []
