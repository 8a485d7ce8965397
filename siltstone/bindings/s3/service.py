"""One bucket and one folder in it, as all parts of the binding share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.bindings.s3.client import make_client
from siltstone.bindings.s3.settings import Encryption, S3Settings
from siltstone.core.remote.remote_client import RemoteClient

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


class Service(RemoteClient):
    """A client; its threads are for the parts of uploads.

    Attributes:
        settings: as they were given.
        bucket: its name.
        client: of the SDK; used by threads at a time.
    """

    def __init__(self, settings: S3Settings) -> None:
        super().__init__(
            "s3",
            folder=settings.folder,
            deadline_s=settings.deadline_s,
            threads=settings.upload_threads,
        )
        self.settings = settings
        self.bucket = settings.bucket
        self.client: S3Client = make_client(settings)

    def storing(self) -> dict[str, Any]:
        """Arguments of every request that makes an object: how it is kept."""
        settings, chosen = self.settings, {}
        if settings.encryption is Encryption.S3:
            chosen["ServerSideEncryption"] = "AES256"
        elif settings.encryption is Encryption.KMS:
            chosen["ServerSideEncryption"] = "aws:kms"
        if settings.kms_key_id is not None:
            chosen["SSEKMSKeyId"] = settings.kms_key_id
        if settings.storage_class is not None:
            chosen["StorageClass"] = settings.storage_class
        return chosen

    def _close_sockets(self) -> None:
        self.client.close()
