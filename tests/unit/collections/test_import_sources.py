"""Sources that cannot be imported: each is refused by name, and nothing of it is appended."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import fs, parquet

from siltstone.collections import upload_ticket
from siltstone.collections.blocking import Collections
from siltstone.collections.sources import any_source
from siltstone.collections.sources.any_source import table_source
from siltstone.collections.sources.parquet_source import ParquetSource
from siltstone.collections.sources.source_file import SourceFile
from siltstone.core.errors import (
    CollectionError,
    CollectionSchemaError,
    CollectionSourceError,
    UpdateTimeError,
)
from tests.support.collections.import_rows import GUSTS, write
from tests.support.collections.store_fixtures import collections, folder

__all__ = ["collections", "folder"]

MORE_COLUMNS = pyarrow.schema([*GUSTS.schema, ("note", pyarrow.string())])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip(path: Path) -> None:
    """Change a byte of the values of the first column, and nothing that a folder tells."""
    before = path.stat()
    chunk = parquet.read_metadata(path).row_group(0).column(0)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


BAD_SOURCES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (lambda source: source.rename(source.parent / "moved"), "no such file or folder"),
    "no file": (lambda source: (source / "b.parquet").unlink(), "no file of Parquet"),
    "another file": (lambda source: (source / "c.txt").write_text("text"), "file=.*c.txt"),
    "an empty file": (lambda source: (source / "c.parquet").touch(), "file=.*c.parquet"),
    "a cut file": (lambda source: cut(source / "b.parquet"), "file=.*b.parquet"),
    "other folders": (
        lambda source: write(source, "day=1/c.parquet", GUSTS),
        "name different columns.*day=1/c.parquet",
    ),
    "a log of Delta": (lambda source: (source / "_delta_log").mkdir(), "format delta"),
}


@pytest.mark.parametrize("kind", BAD_SOURCES)
def test_a_source_that_is_none_is_refused(tmp_path: Path, kind: str) -> None:
    source = write(tmp_path, "source/b.parquet", GUSTS).parent
    spoil, message = BAD_SOURCES[kind]
    spoil(source)
    with pytest.raises(CollectionSourceError, match=message):
        table_source(source, format="parquet")


@pytest.mark.parametrize(
    "spoil",
    [flip, cut, Path.unlink, lambda path: write(path.parent, path.name, GUSTS)],
    ids=["flipped", "cut", "gone", "written again"],
)
def test_a_file_that_is_damaged_or_changes_meanwhile_leaves_nothing(
    collections: Collections,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Path], object],
) -> None:
    monkeypatch.setattr(upload_ticket, "RUN_BYTES", 1)
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    write(tmp_path, "source/a.parquet", GUSTS)
    plain = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    bad = write(tmp_path, "source/b.parquet", GUSTS, **plain)
    source = table_source(tmp_path / "source")
    spoil(bad)
    with pytest.raises(CollectionSourceError, match=r"b\.parquet"):
        made.import_rows(source)
    assert made.info().batches == 0
    made.sweep()
    assert list(folder.rglob("parts/**/*.parquet")) == [], "what was uploaded before is gone"


def test_a_file_that_changes_after_its_last_row_was_read_leaves_nothing(
    collections: Collections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    path = write(tmp_path, "a.parquet", GUSTS)
    source = table_source(path)
    read = SourceFile.tables

    def tables(*arguments: Any) -> Any:
        for table in read(*arguments):
            yield table
            write(tmp_path, "a.parquet", GUSTS.slice(1))

    monkeypatch.setattr(SourceFile, "tables", tables)
    with pytest.raises(CollectionSourceError, match="changed while it was imported"):
        made.import_rows(source)
    assert made.info().batches == 0


BAD_COLUMNS: dict[str, tuple[dict[str, Any], str]] = {
    "nested": ({"gust": [[1.0]] * 6}, "'gust'"),
    "of another type": ({"gust": ["1.5"] * 6}, "'gust'"),
    "that lose digits": ({"year": [2024.5] * 6}, "'year'"),
    "of the key with a null": ({"station": ["oslo", None] * 3}, "'station'"),
    "that is unknown": ({"wind": [1] * 6}, "'wind'"),
    "not UTF-8": ({"station": pyarrow.array([b"\xff"] * 6).view(pyarrow.string())}, "'station'"),
}


@pytest.mark.parametrize("kind", BAD_COLUMNS)
def test_a_column_that_does_not_fit_is_named(
    collections: Collections, tmp_path: Path, kind: str
) -> None:
    made = collections.create("gusts", MORE_COLUMNS, key=["station"])
    columns, message = BAD_COLUMNS[kind]
    given = {name: GUSTS[name] for name in GUSTS.column_names} | columns
    write(tmp_path, "a.parquet", GUSTS)
    write(tmp_path, "b.parquet", pyarrow.table(given))
    with pytest.raises(CollectionSchemaError, match=message):
        made.import_rows(table_source(tmp_path))
    assert made.info().batches == 0


def test_a_missing_column_of_the_key_is_named(collections: Collections, tmp_path: Path) -> None:
    made = collections.create("gusts", MORE_COLUMNS, key=["station"])
    write(tmp_path, "a.parquet", GUSTS.drop_columns(["station"]))
    with pytest.raises(CollectionSchemaError, match="'station'"):
        made.import_rows(table_source(tmp_path))


def test_files_of_different_types_make_no_collection_and_fit_one_that_holds_both(
    collections: Collections, tmp_path: Path
) -> None:
    small = GUSTS.set_column(2, "year", GUSTS["year"].cast(pyarrow.int16()))
    write(tmp_path, "a.parquet", small)
    write(tmp_path, "b.parquet", GUSTS)
    source = table_source(tmp_path)
    with pytest.raises(CollectionSchemaError, match=r"'year'.*int16.*a\.parquet.*int64.*b\.par"):
        _ = source.schema
    assert table_source(tmp_path, columns=["station"]).schema.names == ["station"]
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    made.import_rows(source)
    assert len(made.snapshot().to_arrow()) == 2 * len(GUSTS)


def test_a_value_of_a_folder_that_does_not_fit_is_named(
    collections: Collections, tmp_path: Path
) -> None:
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    for year in ("2024", "soon"):
        write(tmp_path, f"year={year}/a.parquet", GUSTS.drop_columns(["year"]))
    with pytest.raises(CollectionSchemaError, match=r"'year'.*year=soon/a\.parquet"):
        made.import_rows(table_source(tmp_path))
    assert made.info().batches == 0


def test_a_collection_that_is_finished_takes_nothing(
    collections: Collections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    made.finish()
    source = table_source(write(tmp_path, "a.parquet", GUSTS))
    monkeypatch.delattr(SourceFile, "tables")  # It is not read before.
    with pytest.raises(UpdateTimeError, match="finished"):
        made.import_rows(source)


def test_files_without_rows_give_none(collections: Collections, tmp_path: Path) -> None:
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    source = table_source(write(tmp_path, "a.parquet", GUSTS.slice(0, 0)))
    assert [made.import_rows(source).rows, made.import_rows(source).repeated] == [0, True]
    assert len(made.snapshot().to_arrow()) == 0


def test_two_columns_of_one_name_are_named(tmp_path: Path) -> None:
    twice = pyarrow.table([[1], [2]], names=["a", "a"])
    write(tmp_path, "twice/a.parquet", twice)
    write(tmp_path, "folders/year=2024/a.parquet", GUSTS)
    for name, column in (("twice", "'a'"), ("folders", "'year'")):
        with pytest.raises(CollectionSchemaError, match=column):
            table_source(tmp_path / name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "csv"}, "parquet or delta"),
        ({"version": 1}, "only a table of Delta"),
        ({"columns": ["gone"]}, "no such column column='gone'"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    write(tmp_path, "a.parquet", GUSTS)
    with pytest.raises(ValueError, match=message):
        table_source(tmp_path, **options)


class CoarseFileSystem:
    """Files whose times are told in seconds, but by a listing: so does S3."""

    type_name = "coarse"

    def __init__(self) -> None:
        self._inner = fs.LocalFileSystem()

    def get_file_info(self, wanted: Any) -> Any:
        if not isinstance(wanted, str):
            return self._inner.get_file_info(wanted)
        info = self._inner.get_file_info(wanted)
        seconds = None if info.mtime is None else float(int(info.mtime.timestamp()))
        return fs.FileInfo(wanted, info.type, mtime=seconds, size=info.size)

    def open_input_file(self, path: str) -> Any:
        return self._inner.open_input_file(path)


def test_listings_may_tell_finer_times_than_files(collections: Collections, tmp_path: Path) -> None:
    path = write(tmp_path, "a.parquet", GUSTS)
    os.utime(path, ns=(1, 1_700_000_000_123_456_789))
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    source = ParquetSource(CoarseFileSystem(), str(tmp_path), "there", None)
    assert made.import_rows(source).rows == len(GUSTS)


def test_a_url_of_no_file_system_is_refused_and_its_secrets_are_not_told() -> None:
    with pytest.raises(CollectionError, match="s3://") as refused:
        table_source("nowhere://me:secret@a/b?token=hidden")
    assert "nowhere://a/b" in str(refused.value)
    assert not any(word in str(refused.value) for word in ("secret", "hidden"))


def test_a_url_of_a_file_system_is_read(collections: Collections, tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", GUSTS)
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    assert made.import_rows(table_source(tmp_path.as_uri())).rows == len(GUSTS)
    assert made.import_rows(table_source(tmp_path)).repeated


def test_a_column_that_is_chosen_twice_is_refused_and_named(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", GUSTS)
    with pytest.raises(CollectionSourceError, match=r"chosen twice.*'gust'"):
        table_source(tmp_path, columns=["gust", "station", "gust"])


@pytest.mark.slow
def test_a_service_that_cannot_be_reached_is_named() -> None:
    with socket.socket() as bound:  # It is not listened to.
        bound.bind(("127.0.0.1", 0))
        _check_told(bound.getsockname()[1])


def _check_told(unused_port: int) -> None:
    url = f"s3://key:hush@bucket/folder?endpoint_override=127.0.0.1:{unused_port}&scheme=http"
    with pytest.raises(CollectionSourceError, match="cannot be reached") as refused:
        table_source(url)
    assert f"endpoint=127.0.0.1:{unused_port}" in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.slow
def test_a_client_of_gcs_soon_gives_up_and_tells_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(any_source, "REPEATS_S", 1)
    with socket.socket() as bound:  # It is not listened to.
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        url = f"gs://anonymous@bucket/folder?endpoint_override=127.0.0.1:{port}&scheme=http"
        with pytest.raises(CollectionSourceError, match=r"cannot be reached.*connect") as refused:
            table_source(url)
    assert f"endpoint=127.0.0.1:{port}" in str(refused.value)


def test_a_service_that_takes_requests_and_answers_none_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(any_source, "FIRST_ANSWER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = f"gs://anonymous@bucket/folder?endpoint_override=127.0.0.1:{port}&scheme=http"
        with pytest.raises(CollectionSourceError, match="does not answer") as refused:
            table_source(f"{url}&retry_limit_seconds=1")
    assert f"endpoint=127.0.0.1:{port}" in str(refused.value)
    assert "source=gs://bucket/folder" in str(refused.value)
