"""Segments as files for Spark's own readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from siltstone.core.constants import check_segment_name, container_of
from siltstone.core.errors import SettingsError
from siltstone.spark.jvm import CLASS_NAME, JarError, find_jar
from siltstone.spark.local_session import FILE_SYSTEM
from siltstone.store.files.name_match import NameMatch
from siltstone.store.files.publish import PublishedFiles
from siltstone.store.settings.units import parse_time
from siltstone.store.store import Store, open_store
from siltstone.store.store_assembly import container_count

TTL: Final = "1d"

CONNECT: Final = "pyspark.sql.connect."
"""Where the classes of Spark Connect are, which cannot be imported without its packages."""


def files(
    spark: SparkSession,
    store: Store | Path | str,
    segments: str | Sequence[str],
    *,
    match: str = "name",
    at: int | Mapping[str, int] | None = None,
    ttl: str | float | timedelta = TTL,
    verify: bool = True,
    flushed_only: bool = False,
) -> list[str]:
    """Return paths by which Spark's own readers read segments, one for each, in order of names.

    They go to ``spark.read.text(paths)``, ``csv``, ``json``, ``load``, and as ``*paths`` to
    ``parquet``. Each is one file that can be split anywhere, whatever its chunks, and shows the
    segment as it is now, for as long as ``ttl`` says: a pin keeps its chunks meanwhile, whatever is
    truncated, deleted or merged. There is no renewal; a later call gives later paths.

    Only what is flushed is in chunks and so in the files. A store that is open for writing flushes
    the segments first, so the files hold all that was acknowledged. With any other one, a segment
    that is not flushed to its end is refused, unless ``flushed_only`` or ``at`` says what to show.

    Args:
        spark: a session that knows ``silt://``, such as ``siltstone.spark.session()``.
        store: the settings file, or the folder that holds it, which is opened read-only; or a
            store that is open.
        segments: one text that chooses segments, or several.
        match: what a text means: ``name``, ``prefix``, or ``glob``, in which ``*`` and ``?`` stand
            for characters but ``/`` and ``**`` for any.
        at: show an older length, one for all segments or by name; at most the flushed length.
        ttl: how long the paths may be read, such as ``"6h"``, or in seconds; at most 30 days.
        verify: compare every block that is read with its checksum.
        flushed_only: show what is flushed already, and leave out the rest; neither flush nor
            refuse.

    Raises:
        SettingsError: the jar is missing, or the session does not know it; ``match`` or ``ttl`` is
            wrong.
        CapabilityError: chunks of this long-term storage have no address that Spark knows.
        NotFlushedError: bytes are not flushed, the store is not open for writing, and neither
            ``flushed_only`` nor ``at`` is said.

    And what ``Store.publish_files`` and ``siltstone.open`` raise.
    """
    check_session(spark)
    texts = [segments] if isinstance(segments, str) else list(segments)
    if match not in list(NameMatch):
        raise SettingsError(f"match is one of {', '.join(NameMatch)}, not {match!r}")
    how = NameMatch(match)
    lengths = dict.fromkeys(texts, at) if isinstance(at, int) else at
    if isinstance(at, int) and how is not NameMatch.NAME:
        raise SettingsError(f"at needs lengths by name when match is {match!r}")

    def published(opened: Store) -> PublishedFiles:
        return opened.publish_files(
            texts,
            match=how,
            ttl_s=_seconds(ttl),
            verify=verify,
            at=lengths,
            flushed_only=flushed_only,
        )

    if isinstance(store, Store):
        found = published(store)
    else:
        named = texts and how is NameMatch.NAME
        containers = _containers(store, texts) if named else None
        with open_store(store, read_only=True, containers=containers) as opened:
            found = published(opened)
    return [file.path for file in found.files]


def check_session(spark: SparkSession) -> None:
    """Refuse a session that cannot read ``silt://``.

    Raises:
        SettingsError: there is no jar, or the session was made without it; one of Spark Connect is
            as its server was made.
    """
    if spark.conf.get(FILE_SYSTEM, None) is not None:
        return
    try:
        jar = find_jar()
    except JarError as error:
        raise SettingsError(f"Spark cannot read segments as files: {error}") from error
    needed = f"spark.jars={jar} and {FILE_SYSTEM}={CLASS_NAME}"
    if type(spark).__module__.startswith(CONNECT):
        raise SettingsError(
            "the server of this session of Spark Connect does not know silt://, and no client can "
            f"teach it; start the server with {needed}"
        )
    raise SettingsError(
        "this session does not know silt://; make it with siltstone.spark.session(), or with "
        f"{needed}"
    )


def _seconds(ttl: str | float | timedelta) -> float:
    if isinstance(ttl, timedelta):
        return ttl.total_seconds()
    if isinstance(ttl, int | float):
        return float(ttl)
    try:
        return parse_time(ttl)
    except ValueError as error:
        raise SettingsError(f"ttl: {error}") from error


def _containers(store: Path | str, names: Sequence[str]) -> list[int]:
    """The containers that own names, so that no other one is opened."""
    count = container_count(store)
    return sorted({container_of(check_segment_name(name), count) for name in names})
