"""Data of other layouts and of other programs: how it comes in, and how it goes out again."""

__all__: list[str] = []
