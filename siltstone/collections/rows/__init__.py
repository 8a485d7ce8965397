"""Rows of collections, as functions over Arrow tables: schemas, sums, parts, reads and merges.

Nothing here does I/O. What reads bytes of a part takes a callable, ``(offset, length) -> bytes``.

*Updates* are a table with the columns of a schema, and with ``_time`` and ``_diff``, both int64,
where they differ: without ``_diff`` each row comes once, without ``_time`` the time of all rows is
known from elsewhere.
"""

from __future__ import annotations

try:
    import pyarrow as _pyarrow
except ImportError as error:
    from siltstone.core.packages import install_hint as _install_hint

    raise ImportError(
        f"collections need a package that is not installed ({error.name}); "
        f"try: {_install_hint('collections')}"
    ) from error

del _pyarrow
