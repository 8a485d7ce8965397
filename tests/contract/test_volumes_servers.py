"""A volume lives on each kind of long-term storage, held by two clients that race."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.azurite import Azurite
from services.fake_gcs import FakeGcs
from services.hdfs import Hdfs
from services.s3_server import S3Server
from siltstone.core.errors import CapabilityError
from tests.support.services.azure_services import AzureService
from tests.support.services.gcs_services import on_fake, on_stub
from tests.support.services.hdfs_services import HdfsService
from tests.support.services.local_services import BucketService, FolderService
from tests.support.services.s3_services import S3Service
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import serving
from tests.support.volumes.served_volume_life import served_volume_life


def test_a_volume_lives_in_memory(tmp_path: Path) -> None:
    served_volume_life(BucketService(), tmp_path / "clients")


@pytest.mark.slow
def test_a_volume_lives_in_a_folder(tmp_path: Path) -> None:
    served_volume_life(FolderService(root=tmp_path / "chunks"), tmp_path / "clients")


def test_a_volume_lives_in_a_bucket_of_s3(versitygw: S3Server, tmp_path: Path) -> None:
    served_volume_life(S3Service(server=versitygw), tmp_path / "clients")


def test_a_volume_lives_in_a_bucket_of_another_server_of_s3(
    minio: S3Server, tmp_path: Path
) -> None:
    served_volume_life(S3Service(server=minio), tmp_path / "clients")


@pytest.mark.services
def test_a_volume_lives_in_a_bucket_of_the_stub_of_gcs(tmp_path: Path) -> None:
    with serving() as server:
        served_volume_life(on_stub(server.use(Stub())), tmp_path / "clients")


def test_volumes_are_refused_where_a_server_heeds_no_conditions(
    fake_gcs_server: FakeGcs, tmp_path: Path
) -> None:
    with pytest.raises(CapabilityError, match="seen whole or not at all"):
        served_volume_life(on_fake(fake_gcs_server), tmp_path / "clients")


@pytest.mark.parametrize("blobs", ["append", "block"])
def test_a_volume_lives_in_blobs_of_azure(azurite: Azurite, blobs: str, tmp_path: Path) -> None:
    served_volume_life(AzureService(server=azurite, more={"blobs": blobs}), tmp_path / "clients")


@pytest.mark.parametrize("grows", [False, True])
def test_a_volume_lives_in_a_folder_of_hdfs(hdfs: Hdfs, grows: bool, tmp_path: Path) -> None:
    served_volume_life(
        HdfsService(server=hdfs, more={"unsafe_append": grows}), tmp_path / "clients"
    )
