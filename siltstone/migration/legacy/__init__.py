"""The layout of Pravega's RollingStorage: a header next to the chunks of each segment."""

__all__: list[str] = []
