"""Segments in Spark: files for its own readers, a data source, and sessions that need no set-up.

``files(spark, store, "name")`` gives paths for ``spark.read.text``, ``csv``, ``json``, ``parquet``
and the like. ``register(spark)`` makes ``spark.read.format("siltstone")`` known to a session;
``session()`` makes a local one that knows both and brings its own Java when the machine has none.
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
from siltstone.spark.segment_files import files

__all__ = ["files", "java_home", "register", "session"]

del _pyarrow, _pyspark
