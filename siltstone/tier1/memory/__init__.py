"""The memory log: for tests and trials, with the fence of a real one and no durability at all."""

__all__: list[str] = []
