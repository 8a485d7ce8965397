"""A binding as a stranger would write it: it knows ``siltstone.core`` and nothing else of ours."""

__all__: list[str] = []
