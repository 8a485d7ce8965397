"""A collection lives on each kind of long-term storage, held by two clients that race.

``test_nfs_mount.py`` has the same between two mounts of NFS.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from services.azurite import Azurite
from services.fake_gcs import FakeGcs
from services.hdfs import Hdfs
from services.s3_server import S3Server
from siltstone.core.errors import CapabilityError
from tests.support.collections.served_life import served_life
from tests.support.services.azure_services import AzureService
from tests.support.services.gcs_services import on_fake, on_stub
from tests.support.services.hdfs_services import HdfsService
from tests.support.services.local_services import BucketService, FolderService
from tests.support.services.s3_services import S3Service
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import serving


async def test_a_collection_lives_in_memory() -> None:
    await served_life(BucketService())


@pytest.mark.slow
async def test_a_collection_lives_in_a_folder(tmp_path: Path) -> None:
    await served_life(FolderService(root=tmp_path / "chunks"))


async def test_a_collection_lives_in_a_bucket_of_s3(versitygw: S3Server) -> None:
    await served_life(S3Service(server=versitygw))


async def test_a_collection_lives_in_a_bucket_of_another_server_of_s3(minio: S3Server) -> None:
    await served_life(S3Service(server=minio))


@pytest.mark.services
async def test_a_collection_lives_in_a_bucket_of_the_stub_of_gcs() -> None:
    with serving() as server:
        await served_life(on_stub(server.use(Stub())))


async def test_collections_are_refused_where_a_server_heeds_no_conditions(
    fake_gcs_server: FakeGcs,
) -> None:
    with pytest.raises(CapabilityError, match="creates an object whole or not at all"):
        await served_life(on_fake(fake_gcs_server))


@pytest.mark.parametrize("blobs", ["append", "block"])
async def test_a_collection_lives_in_blobs_of_azure(azurite: Azurite, blobs: str) -> None:
    await served_life(AzureService(server=azurite, more={"blobs": blobs}))


@pytest.mark.parametrize("grows", [False, True])
async def test_a_collection_lives_in_a_folder_of_hdfs(hdfs: Hdfs, grows: bool) -> None:
    await served_life(HdfsService(server=hdfs, more={"unsafe_append": grows}))
