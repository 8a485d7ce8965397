"""Data of other layouts and of other programs: how it is imported and exported."""

__all__: list[str] = []
