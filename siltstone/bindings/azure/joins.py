"""Joining blobs on the service, which copies each source as blocks of the new blob.

The service reads a source with the rights of a signature or a token that is shown for it: with the
key of the account one is made for each source, that of the settings is shown as it is, and an
identity gives its token.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobClient, BlobSasPermissions, generate_blob_sas

from siltstone.bindings.azure.client import credential_of
from siltstone.bindings.azure.errors import code_of, let_go, replaced, translated
from siltstone.bindings.azure.reads import head
from siltstone.bindings.azure.service import Service
from siltstone.bindings.azure.uploads import Stager, upload
from siltstone.core.remote.sources import looked_at
from siltstone.core.remote.target import Target

SIGNED_S: Final = 3600.0
"""How long a signature for a source holds beyond the deadline: clocks differ."""
SCOPE: Final = "https://storage.azure.com/.default"


def join(service: Service, target: Target, sources: Sequence[tuple[str, int]]) -> None:
    """Make the blob ``target`` of the first ``length`` bytes of each ``(name, length)``.

    Raises:
        ChunkNotFoundError: a source is not there.
        ChunkOffsetError: a source is too short.
        ChunkUnavailableError: a source was replaced meanwhile, or the service failed.
    """
    look = partial(head, service, operation="concat", deadline=target.deadline)
    found = looked_at(service, sources, look, lambda told: int(told["size"]))
    step = service.settings.block_bytes
    stagers: list[Stager] = [
        partial(
            _copy, service, target, name, str(found[name]["etag"]), start, min(step, length - start)
        )
        for name, length in sources
        for start in range(0, length, step)
    ]
    upload(service, target, stagers)


def _copy(
    service: Service,
    target: Target,
    name: str,
    version: str,
    start: int,
    length: int,
    client: BlobClient,
    block_id: str,
) -> None:
    with translated(name, "concat"):
        target.deadline.check()
        url, options = _source(service, service.key(name, "concat"))
        try:
            client.stage_block_from_url(
                block_id,
                url,
                source_offset=start,
                source_length=length,
                headers={"x-ms-source-if-match": version},
                **options,
            )
        except HttpResponseError as error:
            let_go(error)
            if code_of(error) in ("SourceConditionNotMet", "ConditionNotMet"):
                raise replaced(name, "concat") from error
            raise


def _source(service: Service, key: str) -> tuple[str, dict[str, Any]]:
    """The URL of a source with what lets the service read it."""
    client = service.blob(key)
    credential = credential_of(service.settings)
    if isinstance(credential, AzureNamedKeyCredential):
        account, secret = credential.named_key
        until = datetime.now(UTC) + timedelta(seconds=service.settings.deadline_s + SIGNED_S)
        signature = generate_blob_sas(
            account,
            service.settings.container,
            key,
            account_key=secret,
            permission=BlobSasPermissions(read=True),
            expiry=until,
        )
        return f"{client.url}?{signature}", {}
    if isinstance(credential, AzureSasCredential):
        return f"{client.url}?{credential.signature}", {}
    return client.url, {"source_authorization": f"Bearer {credential.get_token(SCOPE).token}"}
