"""A real S3 server with its data in memory, and three clients of one bucket of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from obstore.store import S3Store

import siltstone
from services.catalogue import SERVICES
from services.s3_server import REGION
from services.versitygw import Versitygw
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.settings import S3Settings

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

NAME = "versitygw"
BUCKET = "bench"
MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Place:
    """A bucket.

    Attributes:
        server: where it is.
        boto3: the SDK as fast as it gets while bodies are protected: signed, no repetitions, no
            second checksum in addition to the signature.
        obstore: the same of the Rust library.
    """

    server: Versitygw
    boto3: S3Client
    obstore: S3Store

    @property
    def options(self) -> dict[str, Any]:
        """Settings of the binding."""
        return {
            "bucket": BUCKET,
            "endpoint": self.server.endpoint,
            "insecure": True,
            "path_style": True,
            "region": REGION,
            "access_key_id": self.server.key_id,
            "secret_access_key": self.server.secret,
        }

    @contextmanager
    def storage(self, **more: Any) -> Iterator[S3ChunkStorage]:
        """The binding, which has proven the bucket already."""
        storage = S3ChunkStorage(S3Settings.model_validate({**self.options, **more}))
        storage.create("proof", [b"x"])
        storage.delete("proof")
        try:
            yield storage
        finally:
            storage.close()

    def store(self, folder: Path, prefix: str, settings: str = "") -> Path:
        """Make a store whose chunks are in the bucket, as ``Workshop.store`` does in a folder."""
        file = siltstone.init(folder, binding="s3", options={**self.options, "prefix": prefix})
        with file.open("a", encoding="utf-8") as text:
            text.write(settings)
        return file

    def empty(self) -> None:
        """Remove all objects, without a request."""
        for entry in (self.server.data / BUCKET).iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()


@contextmanager
def s3_place() -> Iterator[S3Place]:
    """Run a server.

    Raises:
        UnavailableError: its program is not here.
    """
    program = SERVICES[NAME].installed()
    with temporary_files_in_memory():
        server = Versitygw(program, keeps_alive=True)
    with server.start():
        client = _client(server)
        client.create_bucket(Bucket=BUCKET)
        try:
            yield S3Place(server=server, boto3=client, obstore=_store(server))
        finally:
            client.close()


@contextmanager
def temporary_files_in_memory() -> Iterator[None]:
    """Whether there is such a place and it has room."""
    kept = tempfile.tempdir
    writable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    if writable and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
        tempfile.tempdir = str(MEMORY)
    try:
        yield
    finally:
        tempfile.tempdir = kept


def _client(server: Versitygw) -> S3Client:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=server.endpoint,
        region_name=REGION,
        aws_access_key_id=server.key_id,
        aws_secret_access_key=server.secret,
        config=Config(
            signature_version="s3v4",
            retries={"total_max_attempts": 1},
            max_pool_connections=40,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": "path"},
        ),
    )


def _store(server: Versitygw) -> S3Store:
    return S3Store(
        BUCKET,
        endpoint=server.endpoint,
        region=REGION,
        access_key_id=server.key_id,
        secret_access_key=server.secret,
        client_options={"allow_http": True},
    )
