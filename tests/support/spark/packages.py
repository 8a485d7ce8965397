"""Which packages of the Spark set are not installed."""

from __future__ import annotations

from importlib.util import find_spec

NEEDED = ("pyarrow", "pyspark")


def missing_packages() -> list[str]:
    return [name for name in NEEDED if find_spec(name) is None]
