"""Segments in Spark: files for its own readers, a data source, and sessions that need no set-up.

``files(spark, store, "name")`` gives paths for ``spark.read.text``, ``csv``, ``json``, ``parquet``
and the like. ``collection(spark, store, "name")`` shows a collection by Spark's own reader of
Parquet. ``register(spark)`` makes ``spark.read.format("siltstone")`` known to a session;
``session()`` makes a local one that knows both and brings its own Java when the machine has none.

Spark plans queries in processes next to the driver, one for each step. Everything here is loaded
when it is first used, so that each of these begins with what it needs and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.core.lazy_names import lazy_names as _lazy_names

try:
    import pyarrow as _pyarrow
    import pyspark as _pyspark
except ImportError as error:
    from siltstone.core.packages import install_hint as _install_hint

    raise ImportError(
        f"siltstone.spark needs a package that is not installed ({error.name}); "
        f"try: {_install_hint('spark')}"
    ) from error

if TYPE_CHECKING:
    from siltstone.spark.data_source import register as register
    from siltstone.spark.java import java_home as java_home
    from siltstone.spark.local_session import session as session
    from siltstone.spark.native_collection import collection as collection
    from siltstone.spark.segment_files import files as files

__all__ = ["collection", "files", "java_home", "register", "session"]

_PLACES: Final = {
    "collection": "native_collection",
    "files": "segment_files",
    "java_home": "java",
    "register": "data_source",
    "session": "local_session",
}

del _pyarrow, _pyspark

__getattr__ = _lazy_names(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
