"""Where Hadoop finds the chunks of each binding: no request is sent, no credential is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from siltstone.core.hooks import load_chunk_storage
from siltstone.core.storage.optional_verbs import uri_of

SECRET = "c2VjcmV0c2VjcmV0"
S3 = {"region": "eu-west-1", "access_key_id": "id", "secret_access_key": SECRET}
AZURE = {"container": "boxes", "prefix": "a/b", "account_key": SECRET}

CASES: list[tuple[str, dict[str, Any], str | None]] = [
    ("s3", S3 | {"bucket": "my-bucket", "prefix": "a/b"}, "s3a://my-bucket/a/b/data/x"),
    ("s3", S3 | {"bucket": "my-bucket"}, "s3a://my-bucket/data/x"),
    ("s3", S3 | {"bucket": "arn:aws:s3:eu-west-1:123456789012:accesspoint/mine"}, None),
    ("gcs", {"bucket": "my-bucket", "prefix": "a", "token": SECRET}, "gs://my-bucket/a/data/x"),
    (
        "azure",
        AZURE | {"account": "someone"},
        "abfss://boxes@someone.dfs.core.windows.net/a/b/data/x",
    ),
    (
        "azure",
        AZURE | {"account": "someone", "endpoint": "https://127.0.0.1:10000/someone"},
        None,
    ),
    ("hdfs", {"namenode": "hdfs://nn:8020", "path": "/a/b"}, "hdfs://nn:8020/a/b/data/x"),
    ("memory", {}, None),
]


def opened(binding: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The storage of a binding that cannot look at its service."""
    for place in ("s3", "gcs", "azure"):
        module = f"siltstone.bindings.{place}.chunk_storage.look"
        if place == binding:
            monkeypatch.setattr(module, lambda _: None)
    if binding == "hdfs":
        monkeypatch.setattr(
            "siltstone.bindings.hdfs.chunk_storage.HdfsChunkStorage.look", lambda _: None
        )
    return load_chunk_storage(binding, options)


@pytest.mark.parametrize(("binding", "options", "uri"), CASES)
def test_addresses(
    binding: str, options: dict[str, Any], uri: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = opened(binding, options, monkeypatch)
    try:
        assert uri_of(storage, "data/x") == uri
    finally:
        storage.close()


def test_files_of_a_folder(tmp_path: Path) -> None:
    storage = load_chunk_storage("nfs", {"path": str(tmp_path / "a b")})
    try:
        assert uri_of(storage, "data/x") == f"file://{tmp_path}/a b/data/x"
    finally:
        storage.close()
