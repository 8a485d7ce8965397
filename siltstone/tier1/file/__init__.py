"""The file log: frames in files of one local folder, fenced by a marker that every write reads."""

__all__: list[str] = []
