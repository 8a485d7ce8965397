"""A table elsewhere by its path or URL."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pyarrow
from pyarrow import fs

from siltstone.collections.sources.delta_source import DeltaSource
from siltstone.collections.sources.parquet_source import ParquetSource
from siltstone.collections.sources.table_source import TableSource
from siltstone.core.errors import CollectionSourceError

PARQUET: Final = "parquet"
DELTA: Final = "delta"

_UNREACHABLE: Final = "AWS Error NETWORK_CONNECTION"
"""What Arrow's client of S3 says when no answer came; it has no type for it."""

_LOG: Final = "_delta_log"
"""The folder that makes a folder of Parquet files a table of Delta."""


def table_source(
    source: str | Path,
    *,
    format: str | None = None,
    version: int | None = None,
    columns: Sequence[str] | None = None,
) -> TableSource:
    """Open a table elsewhere, to be imported into a collection. Blocking; reads only.

    Args:
        source: a folder of Parquet files or one such file, or a table of Delta: a path, or a URL
            such as ``s3://bucket/folder``. Credentials come from the environment.
        format: ``parquet`` or ``delta``; by default what is there.
        version: of a table of Delta, from 0 on; the newest if not given.
        columns: names of those to import; all if not given.

    Raises:
        CollectionSourceError: there is no such table, or it cannot be read; the message names the
            file.
        CollectionSchemaError: a column is in files and in the names of their folders.
        ValueError: there is no such format, or a version is asked for of a folder of Parquet.
    """
    if format not in (None, PARQUET, DELTA):
        raise ValueError(f"a format is {PARQUET} or {DELTA}, not {format!r}")
    url = os.fspath(source)
    where, endpoint = _shown(url), _endpoint(url)
    filesystem, path = _place(url, where)
    with _told(where, endpoint):
        log = filesystem.get_file_info(f"{path.rstrip('/')}/{_LOG}")
    is_delta = log.type is fs.FileType.Directory
    if is_delta and format == PARQUET:
        raise CollectionSourceError(
            "this is a table of Delta: its files hold rows that were deleted, too; import it with "
            "the format delta",
            source=where,
        )
    if is_delta or format == DELTA:
        return DeltaSource(url if "://" in url else path, where, version, columns)
    if version is not None:
        raise ValueError("only a table of Delta has versions")
    with _told(where, endpoint):
        return ParquetSource(filesystem, path, where, columns)


@contextmanager
def _told(where: str, endpoint: str | None) -> Iterator[None]:
    """Name the source in errors of its file system, such as of rights or of an outage."""
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        if _UNREACHABLE in str(error):
            raise CollectionSourceError(
                f"the service that has the source cannot be reached: {error}",
                source=where,
                endpoint=endpoint,
            ) from error
        raise CollectionSourceError(f"the source cannot be read: {error}", source=where) from error


def _endpoint(url: str) -> str | None:
    """Where requests for a URL of S3 go, if a setting says it; else the error has the host."""
    given = parse_qs(urlsplit(url).query).get("endpoint_override")
    if given:
        return given[-1]
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _shown(url: str) -> str:
    """What messages call a source: a URL without what may be a secret."""
    scheme, sign, rest = url.partition("://")
    if not sign:
        return url
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _place(url: str, where: str) -> tuple[fs.FileSystem, str]:
    try:
        if "://" in url:
            filesystem, path = fs.FileSystem.from_uri(url)
            return filesystem, path
        return fs.LocalFileSystem(), str(Path(url).absolute())
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise CollectionSourceError(
            "there is no file system for this source; name a folder, or s3://, gs://, abfs:// or "
            f"hdfs://: {str(error).replace(url, where)}",
            source=where,
        ) from error
