"""Tables of Spark's catalog, which no segment or collection can be: what becomes one is refused.

Spark keeps the options of such a table and hands none of them to a source in Python when the table
is read or written. So the table could be made, and filled, and nothing could be read from it. Spark
asks no source whether it may make a table; each of these is a sign by which one is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark import TaskContext

from siltstone.core.errors import SettingsError

WAY_OUT: Final = (
    "segments and collections cannot be tables of Spark's catalog, which gives the options of a "
    "table to no source in Python: write with df.write.format('siltstone').save() or "
    "writeStream.start(), and read with spark.read or CREATE TEMPORARY VIEW name USING siltstone "
    "OPTIONS (...)"
)

_OF_TABLES: Final = frozenset({"owner", "provider"})
"""What Spark adds to the options of a table whose columns it asks for."""

EXECUTION: Final = "spark.sql.execution.id"
ROOT: Final = "spark.sql.execution.root.id"
QUERY: Final = "sql.streaming.queryId"
CALL_SITE: Final = "callSite.short"
TO_TABLE: Final = "toTable at "


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options, in lower case, that Spark gives for a table, or does not give for one.

    Raises:
        SettingsError: there are none, or some that only a table has.
    """
    if not options:
        raise SettingsError(f"option 'store' is missing; {WAY_OUT}")
    if options.keys() & _OF_TABLES or any(name.startswith("option.") for name in options):
        raise SettingsError(WAY_OUT)


def check_task(context: TaskContext) -> None:
    """Refuse to write rows for a table that a command is making, before any is written.

    A command that makes a table and fills it (``saveAsTable``, ``writeTo().create()``) runs the
    write inside an execution of its own; so does each batch of a stream, and what ``foreachBatch``
    writes. A stream that fills a table tells so by the place where it was started.

    Raises:
        SettingsError: the rows are for a table.
    """
    if context.getLocalProperty(QUERY):
        refused = (context.getLocalProperty(CALL_SITE) or "").startswith(TO_TABLE)
    else:
        root = context.getLocalProperty(ROOT)
        refused = root is not None and root != context.getLocalProperty(EXECUTION)
    if refused:
        raise SettingsError(WAY_OUT)
