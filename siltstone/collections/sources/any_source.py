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
from siltstone.core.bounded_calls import LateError, bounded, within
from siltstone.core.errors import CollectionSourceError

PARQUET: Final = "parquet"
DELTA: Final = "delta"

FIRST_ANSWER_S: Final = 60.0
"""From a service, or from the one that gives its credentials. Clients of Arrow repeat for up to 15
minutes where no one answers, and say nothing meanwhile. It is longer than ``REPEATS_S``, so that a
client which gives up by itself tells why, and than the start of a virtual machine of Java."""

REPEATS_S: Final = 30
"""For which Arrow's client of GCS repeats each request, where the URL does not say it."""

_GCS: Final = ("gs", "gcs")
"""Schemes of URLs."""

_REPEATS_OPTION: Final = "retry_limit_seconds"

_UNREACHABLE: Final = ("AWS Error NETWORK_CONNECTION", "google::cloud::Status(UNAVAILABLE")
"""What Arrow's clients of S3 and of GCS say when no answer came; they have no type for it."""

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

    A service that does not answer within a minute is an error.

    Args:
        source: a folder of Parquet files or one such file, or a table of Delta: a path, or a URL
            such as ``s3://bucket/folder``. Credentials come from the environment.
        format: ``parquet`` or ``delta``; by default what is there.
        version: of a table of Delta, from 0 on; the newest if not given.
        columns: names of those to import; all if not given.

    Raises:
        CollectionSourceError: there is no such table, it cannot be read, or its service does not
            answer; the message names the file or the service.
        CollectionSchemaError: a column is in files and in the names of their folders.
        ValueError: there is no such format, or a version is asked for of a folder of Parquet.
    """
    if format not in (None, PARQUET, DELTA):
        raise ValueError(f"a format is {PARQUET} or {DELTA}, not {format!r}")
    url = os.fspath(source)
    where, endpoint = _shown(url), _endpoint(url)
    filesystem, path, is_delta = _first_look(url, where, endpoint)
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


def _first_look(url: str, where: str, endpoint: str | None) -> tuple[fs.FileSystem, str, bool]:
    """The file system of a source, its path there, and whether it is a table of Delta."""

    def look() -> tuple[fs.FileSystem, str, bool]:
        filesystem, path = _place(url, where)
        with _told(where, endpoint):
            log = filesystem.get_file_info(f"{path.rstrip('/')}/{_LOG}")
        return filesystem, path, log.type is fs.FileType.Directory

    try:
        return bounded(look, within(FIRST_ANSWER_S))
    except LateError as error:
        silent = "the service that has the source, or the one that gives its credentials,"
        raise CollectionSourceError(
            f"{silent if '://' in url else 'the file system of the source'} does not answer: see "
            "whether the address is right, and can be reached from here",
            source=where,
            endpoint=endpoint,
            waited_s=FIRST_ANSWER_S,
        ) from error


@contextmanager
def _told(where: str, endpoint: str | None) -> Iterator[None]:
    """Name the source in errors of its file system, such as of rights or of an outage."""
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        if any(sign in str(error) for sign in _UNREACHABLE):
            raise CollectionSourceError(
                f"the service that has the source cannot be reached: {error}",
                source=where,
                endpoint=endpoint,
            ) from error
        raise CollectionSourceError(f"the source cannot be read: {error}", source=where) from error


def _endpoint(url: str) -> str | None:
    """Where requests for a URL go, if a setting says it; else the URL or the error has the host."""
    parts = urlsplit(url)
    given = parse_qs(parts.query).get("endpoint_override")
    if given:
        return given[-1]
    if parts.scheme in _GCS:
        return "storage.googleapis.com"
    if parts.scheme != "s3":
        return None
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _shown(url: str) -> str:
    """What messages call a source: a URL without what may be a secret."""
    scheme, sign, rest = url.partition("://")
    if not sign:
        return url
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _patient(url: str) -> str:
    """A URL that also says for how long the client repeats, where the client can be told."""
    parts = urlsplit(url)
    if parts.scheme not in _GCS or _REPEATS_OPTION in parse_qs(parts.query):
        return url
    return f"{url}{'&' if parts.query else '?'}{_REPEATS_OPTION}={REPEATS_S}"


def _place(url: str, where: str) -> tuple[fs.FileSystem, str]:
    given = _patient(url)
    try:
        if "://" in url:
            filesystem, path = fs.FileSystem.from_uri(given)
            return filesystem, path
        return fs.LocalFileSystem(), str(Path(url).absolute())
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise CollectionSourceError(
            "there is no file system for this source; name a folder, or s3://, gs://, abfs:// or "
            f"hdfs://: {str(error).replace(given, where)}",
            source=where,
        ) from error
