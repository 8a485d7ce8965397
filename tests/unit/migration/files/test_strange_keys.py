"""Objects in a bucket whose keys no chunk can have: named, and never left out silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest

from services.azurite import Azurite
from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import StoreError
from siltstone.core.storage.optional_verbs import list_every
from siltstone.core.storage.retries import Retries, RetryingChunkStorage
from siltstone.migration.files.import_plan import plan_objects
from tests.support.services.azure_services import new_container, settings_of, take_for_proven
from tests.support.stubs.gcs_stub import Stub as GcsStub
from tests.support.stubs.gcs_stub_server import serving
from tests.support.stubs.s3_stub import Stub as S3Stub
from tests.support.stubs.s3_stub import running

Bucket = Callable[[Mapping[str, bytes]], ChunkStorage]


def retrying(storage: ChunkStorage) -> ChunkStorage:
    """The storage as a store opens it."""
    return RetryingChunkStorage(storage, SystemEnvironment(), Retries(attempts=2, deadline_s=10))


@pytest.fixture(params=["s3", "gcs", "azure"])
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    """A bucket with these objects of another program."""
    if request.param == "s3":
        with running(S3Stub()) as s3, closing(S3ChunkStorage(s3.settings())) as of_s3:

            def updated(objects: Mapping[str, bytes]) -> ChunkStorage:
                s3.objects.update(objects)
                return retrying(of_s3)

            yield updated
    elif request.param == "gcs":
        with serving() as server:
            gcs = server.use(GcsStub())
            with closing(GcsChunkStorage(gcs.settings())) as of_gcs:

                def stored(objects: Mapping[str, bytes]) -> ChunkStorage:
                    for key, data in objects.items():
                        gcs.store(key, data)
                    return retrying(of_gcs)

                yield stored
    else:
        azurite: Azurite = request.getfixturevalue("azurite")
        container, raw = new_container(azurite)
        take_for_proven(settings_of(azurite, container))
        with closing(AzureChunkStorage(settings_of(azurite, container))) as of_azure:

            def put(objects: Mapping[str, bytes]) -> ChunkStorage:
                for key, data in objects.items():
                    raw.write(key, data)
                return retrying(of_azure)

            yield put


@pytest.mark.parametrize("key", ["in/a//b", "in/folder/"])
def test_an_object_with_bytes_that_no_chunk_can_be_is_refused_by_its_key(
    bucket: Bucket, key: str
) -> None:
    storage = bucket({"in/a": b"1", key: b"bytes", "in/z": b"2"})
    with pytest.raises(StoreError, match="no chunk can have this key") as caught:
        plan_objects("x/{path}", storage, ["in/"])
    assert f"key={key}" in str(caught.value)


def test_the_empty_object_of_a_folder_is_passed_over(bucket: Bucket) -> None:
    storage = bucket({"in/folder/": b"", "in/folder/a": b"1", "in/b": b""})
    planned = plan_objects("{path}", storage, ["in/"])
    assert {segment.name: segment.length for segment in planned} == {"b": 0, "folder/a": 1}


def test_a_prefix_that_no_chunk_begins_with_names_what_is_there(bucket: Bucket) -> None:
    storage = bucket({"in//b": b"bytes"})
    with pytest.raises(StoreError, match="no chunk can have this key"):
        plan_objects("x/{path}", storage, ["in//"])


def test_a_whole_listing_continues_after_a_name(bucket: Bucket) -> None:
    storage = bucket({"in/a//b": b"1", "in/c": b"2", "in/d/": b"3"})
    assert [found.name for found in list_every(storage, "in/", "in/a//b")] == ["in/c", "in/d/"]
    assert [found.name for found in storage.list("in/")] == ["in/c"]


def test_a_storage_of_nothing_but_chunks_lists_them() -> None:
    memory = MemoryChunkStorage()
    memory.create("in/a", [b"1"])
    assert [found.name for found in list_every(retrying(memory), "in/")] == ["in/a"]
