"""Segments in Spark: a data source that reads lines, and sessions that need no set-up.

``register(spark)`` makes ``spark.read.format("siltstone")`` known to a session; ``session()`` makes
a local one that knows it and brings its own Java when the machine has none.
"""

from __future__ import annotations

try:
    import pyarrow as _pyarrow
    import pyspark as _pyspark
except ImportError as error:
    raise ImportError(
        f"siltstone.spark needs a package that is not installed ({error.name}); "
        'try: pip install "siltstone[spark]"'
    ) from error

from siltstone.spark.data_source import register
from siltstone.spark.java import java_home
from siltstone.spark.local_session import session

__all__ = ["java_home", "register", "session"]

del _pyarrow, _pyspark
