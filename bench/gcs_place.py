"""A server of Google Cloud Storage with its data in memory, and two clients of one bucket of it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from services.catalogue import SERVICES
from services.fake_gcs import FakeGcs
from siltstone.bindings.gcs import proof
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.bindings.gcs.settings import GcsSettings

NAME = "fake-gcs-server"
BUCKET = "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsPlace:
    """A bucket.

    Attributes:
        server: where it is.
        sdk: the bucket in the SDK, as fast as it gets: no checksums, no repetitions, and no
            requests besides what is measured.
    """

    server: FakeGcs
    sdk: Any

    @property
    def options(self) -> dict[str, Any]:
        """Settings of the binding."""
        return {
            "bucket": BUCKET,
            "endpoint": self.server.endpoint,
            "insecure": True,
            "anonymous": True,
        }

    @contextmanager
    def storage(self) -> Iterator[GcsChunkStorage]:
        """The binding, without the proof that this server does not pass.

        It heeds the condition of an upload, so the measured requests are those that the service
        gets.
        """
        proof.PROOFS.take((self.server.endpoint, BUCKET))
        storage = GcsChunkStorage(GcsSettings.model_validate(self.options))
        try:
            yield storage
        finally:
            storage.close()

    def empty(self) -> None:
        """Remove all objects."""
        for blob in self.sdk.list_blobs():
            blob.delete()


@contextmanager
def gcs_place() -> Iterator[GcsPlace]:
    """Run a server.

    Raises:
        UnavailableError: its program is not here.
    """
    with FakeGcs(SERVICES[NAME].installed()) as server:
        server.start()
        _make_bucket(server)
        client = storage.Client(
            project="bench",
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": server.endpoint},
        )
        # Otherwise a thread would ask for the bucket meanwhile.
        client._bucket_metadata_cache = None
        try:
            yield GcsPlace(server=server, sdk=client.bucket(BUCKET))
        finally:
            client.close()


def _make_bucket(server: FakeGcs) -> None:
    asked = urllib.request.Request(
        f"{server.endpoint}/storage/v1/b?project=bench",
        data=json.dumps({"name": BUCKET}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked) as answer:
        answer.read()
