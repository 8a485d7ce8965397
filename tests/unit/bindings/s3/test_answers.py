"""Answers of the service: what the SDK hears of them, and those that leave something out."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.client import time_of
from siltstone.core.errors import ChunkUnavailableError
from tests.support.stubs.s3_stub import DATE, HTTP_DATE, Reply, Stub

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("written", [DATE, HTTP_DATE, "2026-01-01T00:00:00Z", 1767225600])
def test_times_of_all_kinds_of_answers_are_understood(written: object) -> None:
    assert time_of(written) == NEW_YEAR


@pytest.mark.parametrize("written", ["", "yesterday", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        time_of(written)


CHUNK = f"<Key>a</Key><Size>1</Size><ETag>x</ETag><LastModified>{DATE}</LastModified>"
MORE, LAST = "<IsTruncated>true</IsTruncated>", "<IsTruncated>false</IsTruncated>"


@pytest.mark.parametrize("left_out", ["Key", "Size", "ETag", "LastModified", "token"])
def test_a_listing_that_leaves_something_out_is_no_answer(
    stub: Stub, storage: S3ChunkStorage, left_out: str
) -> None:
    content = CHUNK.replace(f"{left_out}>", "Other>")
    end = MORE if left_out == "token" else LAST
    page = f"<ListBucketResult><Contents>{content}</Contents>{end}</ListBucketResult>"
    stub.fail("GET?list-type", Reply(200, page.encode()))
    with pytest.raises(ChunkUnavailableError, match="no whole answer"):
        list(storage.list())


@pytest.mark.parametrize("left_out", ["Key", "UploadId", "Initiated", "marker"])
def test_a_list_of_uploads_that_leaves_something_out_is_none(
    stub: Stub, storage: S3ChunkStorage, left_out: str
) -> None:
    upload = f"<Key>a</Key><UploadId>u</UploadId><Initiated>{DATE}</Initiated>"
    content = upload.replace(f"{left_out}>", "Other>")
    end = MORE if left_out == "marker" else LAST
    kind = "ListMultipartUploadsResult"
    page = f"<{kind}><Upload>{content}</Upload>{end}</{kind}>"
    stub.fail("GET?uploads", Reply(200, page.encode()))
    with pytest.raises(ChunkUnavailableError, match="no whole answer"):
        storage.sweep_leftovers("", 0)
    assert stub.whats() == ["GET?uploads"], "nothing is aborted"
