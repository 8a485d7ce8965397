"""One bucket and one folder in it, as all parts of the binding share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.bindings.s3.client import make_client, make_session
from siltstone.bindings.s3.settings import Encryption, S3Settings, Transport
from siltstone.core.errors import SettingsError
from siltstone.core.packages import install_hint
from siltstone.core.remote.remote_client import RemoteClient

if TYPE_CHECKING:
    from botocore.session import Session
    from types_boto3_s3 import S3Client

    from siltstone.bindings.s3.obstore_reads import ObstoreReads


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
        session = make_session(settings)
        self.client: S3Client = make_client(settings, session)
        self._reads: ObstoreReads | None = None
        if settings.transport is Transport.OBSTORE:
            self._reads = _obstore_reads(settings, self.client, session)

    def reads_of(self, operation: str, key: str, length: int = 0) -> ObstoreReads | None:
        """What reads this many bytes of this object for this verb, if it is not the SDK."""
        reads = self._reads
        return reads if reads is not None and reads.can_take(operation, key, length) else None

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
        reads, self._reads = self._reads, None
        if reads is not None:
            reads.close()
        self.client.close()


def _obstore_reads(settings: S3Settings, client: S3Client, session: Session) -> ObstoreReads:
    try:
        from siltstone.bindings.s3.obstore_reads import ObstoreReads
    except ImportError as error:
        client.close()
        raise SettingsError(
            f"s3.transport: obstore is not installed; try: {install_hint('obstore')}"
        ) from error
    return ObstoreReads(settings, client, session.get_credentials)
