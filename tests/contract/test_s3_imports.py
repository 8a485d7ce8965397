"""Imports from a bucket of a real server: by pyarrow's client, and by that of ``deltalake``."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow
import pytest
from pyarrow import dataset, fs

import siltstone
from services.s3_server import REGION, S3Server
from siltstone.collections.sources.any_source import table_source
from siltstone.core.errors import CollectionSourceError
from tests.support.collections.import_rows import GUSTS, rows_of
from tests.support.services.s3_services import new_bucket


@pytest.fixture
def bucket(versitygw: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket; where its server is, and the credentials, are in the environment."""
    for name, value in {
        "ACCESS_KEY_ID": versitygw.key_id,
        "SECRET_ACCESS_KEY": versitygw.secret,
        "ENDPOINT_URL": versitygw.endpoint,
        "REGION": REGION,
        "ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    return new_bucket(versitygw)[0]


def test_tables_of_a_bucket_come_once(bucket: str, tmp_path: Path) -> None:
    filesystem, folder = fs.FileSystem.from_uri(f"s3://{bucket}/parts%20%C3%BC")
    dataset.write_dataset(
        GUSTS,
        folder,
        filesystem=filesystem,
        format="parquet",
        partitioning=["year"],
        partitioning_flavor="hive",
    )
    deltalake.write_deltalake(f"s3://{bucket}/delta", GUSTS, partition_by=["year"])
    deltalake.DeltaTable(f"s3://{bucket}/delta").delete("station = 'oslo'")
    siltstone.init(tmp_path)
    with siltstone.open_collections(tmp_path) as collections:
        for name, expected in (("parts%20%C3%BC", GUSTS), ("delta", GUSTS.take([1, 2, 3, 5]))):
            url = f"s3://{bucket}/{name}"
            made = collections.create(name, table_source(url).schema, key=["station"])
            told = [made.import_rows(table_source(url)) for _ in range(2)]
            assert [one.repeated for one in told] == [False, True]
            found: pyarrow.Table = made.snapshot().to_arrow()
            assert rows_of(found) == rows_of(expected)


def test_a_place_of_a_bucket_without_files_is_refused(bucket: str) -> None:
    for name in ("gone", "gone/file.parquet"):
        with pytest.raises(CollectionSourceError, match="gone"):
            table_source(f"s3://{bucket}/{name}")
    with pytest.raises(CollectionSourceError, match="delta"):
        table_source(f"s3://{bucket}/delta", format="delta")


def test_a_refusal_of_the_service_names_the_source(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(CollectionSourceError, match=f"cannot be read.*s3://{bucket}/parts"):
        table_source(f"s3://{bucket}/parts")
