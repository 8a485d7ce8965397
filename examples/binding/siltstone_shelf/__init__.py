"""A binding as an outside developer would write it: it uses only ``siltstone.core``."""

__all__: list[str] = []
