"""An owner writes new bytes to files of a legacy layout, next to those that became its chunks."""

__all__: list[str] = []
