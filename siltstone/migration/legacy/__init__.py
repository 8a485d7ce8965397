"""The layout of Pravega's RollingStorage: a header beside the chunks of each segment."""

__all__: list[str] = []
