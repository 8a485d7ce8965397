"""Plugins that can not be used, each for another reason."""

__all__: list[str] = []
