"""What is tried on the service before anything relies on it.

Opening lists one blob, which tells a wrong account, container or credential, and asks what kind of
account it is. The first change that a process makes in a container is preceded by a proof that a
create cannot overwrite; it needs the right to write, which a reader may not have. Scratch
blobs lie where those of ``siltstone doctor`` do, so it removes what a crash leaves.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobClient

from siltstone.bindings.azure.errors import code_of, let_go, status_of, translated
from siltstone.bindings.azure.service import Service
from siltstone.bindings.azure.settings import Blobs
from siltstone.core.errors import CapabilityError, ChunkError, SettingsError
from siltstone.core.remote.proofs import Proofs

PROOFS: Final = Proofs()


def look(service: Service) -> None:
    """List one blob, and ask about the account.

    Raises:
        SettingsError: there is no such container, or the account has folders.
        ChunkError: the service refused, or did not answer.
    """
    settings = service.settings
    with translated(settings.folder, "list"):
        try:
            pages = service.container.list_blobs(
                name_starts_with=settings.folder, results_per_page=1
            ).by_page()
            list(next(pages, iter(())))
        except HttpResponseError as error:
            let_go(error)
            if code_of(error) == "ContainerNotFound":
                raise SettingsError(
                    f"azure.container: there is no container {settings.container!r} in this account"
                ) from error
            if status_of(error) == 404:
                raise SettingsError(
                    f"azure.endpoint: {settings.account_url} is no account"
                ) from error
            raise
        try:
            told = service.container.get_account_information()
        except HttpResponseError as error:
            let_go(error)
            # Not every user of a container may ask this.
            if error.response is None or status_of(error) >= 500:
                raise
            return
    if told.get("is_hns_enabled"):
        raise SettingsError(
            "azure.account: has a hierarchical namespace, which lists folders as blobs and in "
            "another order; use an account without one"
        )


def prove(service: Service, blobs: Blobs) -> None:
    """Make sure, once in a process and container, that creates are exclusive, and appends checked.

    Args:
        service: the container.
        blobs: the kind of blobs that are to be made.

    Raises:
        CapabilityError: the service ignores a condition, or has no append blobs.
        ChunkError: the service failed meanwhile; the next change tries again.
    """
    settings = service.settings
    proof = (settings.account_url, settings.container, blobs)
    PROOFS.make_sure(proof, partial(_prove, service, blobs))


def _prove(service: Service, blobs: Blobs, folder: str) -> None:
    name = f"{folder}{blobs}"
    client = service.blob(service.key(name, "create"))
    try:
        with translated(name, "create", changes=True):
            if blobs is Blobs.APPEND:
                _prove_append(service, client)
            else:
                _prove_block(service, client)
    finally:
        with suppress(ChunkError), translated(name, "delete"):
            client.delete_blob()


def _prove_append(service: Service, client: BlobClient) -> None:
    try:
        client.create_append_blob(match_condition=MatchConditions.IfMissing)
    except HttpResponseError as error:
        let_go(error)
        if code_of(error) in ("FeatureNotSupported", "InvalidBlobType", "APINotImplemented") or (
            status_of(error) == 501
        ):
            raise CapabilityError(
                "the account has no append blobs, set azure.blobs: block",
                container=service.settings.container,
            ) from error
        raise
    client.append_block(b"one", length=3, appendpos_condition=0)
    try:
        client.append_block(b"two", length=3, appendpos_condition=0)
    except HttpResponseError as error:
        let_go(error)
        if status_of(error) != 412:
            raise
    else:
        raise _unconditional(service, "x-ms-blob-condition-appendpos")
    try:
        client.create_append_blob(match_condition=MatchConditions.IfMissing)
    except HttpResponseError as error:
        let_go(error)
        if status_of(error) not in (409, 412):
            raise
    else:
        raise _unconditional(service, "If-None-Match")


def _prove_block(service: Service, client: BlobClient) -> None:
    client.upload_blob(b"first", length=5, overwrite=False)
    try:
        client.upload_blob(b"second", length=6, overwrite=False)
    except HttpResponseError as error:
        let_go(error)
        if status_of(error) not in (409, 412):
            raise
    else:
        raise _unconditional(service, "If-None-Match")


def _unconditional(service: Service, condition: str) -> CapabilityError:
    return CapabilityError(
        f"the service ignores {condition}, so bytes of a chunk could be lost",
        container=service.settings.container,
    )
