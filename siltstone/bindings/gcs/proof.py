"""What is tried on the service before anything relies on it.

Opening lists one key, which tells a wrong bucket or wrong credentials. The first change that a
process makes in a bucket is preceded by a proof that conditions hold: that neither a create nor a
join can overwrite, that a join takes the objects that it names and no later ones, and that a
deletion spares what it does not mean. It needs the right to write, which a reader may not
have. Scratch objects lie where those of ``siltstone doctor`` do, so it removes what a crash leaves.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final

from google.api_core.exceptions import NotFound, PreconditionFailed

from siltstone.bindings.gcs.errors import ReplacedError, translated
from siltstone.bindings.gcs.joins import compose
from siltstone.bindings.gcs.service import Service
from siltstone.bindings.gcs.uploads import Made, put
from siltstone.core.errors import (
    CapabilityError,
    ChunkExistsError,
    SettingsError,
)
from siltstone.core.remote.answers import whole
from siltstone.core.remote.proofs import Proofs
from siltstone.core.remote.target import Target

OTHER: Final = 1
"""A generation that no object has: the service counts in microseconds."""

PROOFS: Final = Proofs()


def look(service: Service) -> None:
    """List one key: the cheapest request that shows bucket, credentials and one right.

    Raises:
        SettingsError: there is no such bucket.
        ChunkError: the service refused, or did not answer.
    """
    settings = service.settings
    with translated(settings.folder, "list"), service.session.until(service.deadline(0)):
        try:
            listing = service.client.list_blobs(
                service.bucket,
                prefix=settings.folder or None,
                page_size=1,
                fields="kind,nextPageToken",
                retry=None,
            )
            whole(next(listing.pages).raw_page, ["kind"], settings.folder, "list")
        except NotFound as error:
            raise SettingsError(
                f"gcs.bucket: there is no bucket {settings.bucket!r} at this endpoint"
            ) from error


def prove(service: Service) -> None:
    """Make sure, once in a process and bucket, that the service heeds conditions.

    Raises:
        CapabilityError: it ignores one.
        ChunkError: the service failed meanwhile; the next change tries again.
    """
    settings = service.settings
    if settings.unsafe_without_preconditions:
        return
    PROOFS.make_sure((settings.endpoint, settings.bucket), partial(_prove, service))


def _prove(service: Service, folder: str) -> None:
    first, joined = (_scratch(service, f"{folder}{what}") for what in ("create", "concat"))
    try:
        there = put(service, first, [b"first"], 5)
        _refuses_create(service, first)
        _refuses_join(service, first, there)
        _refuses_stale_source(service, joined, there)
        _refuses_delete(service, first)
    finally:
        _remove(service, first)


def _refuses_create(service: Service, target: Target) -> None:
    try:
        put(service, target, [b"other"], 5)
    except ChunkExistsError:
        return
    raise _unconditional(service, "a create could overwrite a chunk")


def _refuses_join(service: Service, target: Target, there: Made) -> None:
    try:
        compose(service, target, [there])
    except ChunkExistsError:
        return
    raise _unconditional(service, "a join could overwrite a chunk")


def _refuses_stale_source(service: Service, target: Target, there: Made) -> None:
    stale = Made(key=there.key, generation=OTHER, length=there.length, crc=there.crc)
    try:
        compose(service, target, [stale])
    except (ReplacedError, ChunkExistsError):
        return
    _remove(service, target)
    raise _unconditional(service, "a join could take other bytes than were looked at")


def _refuses_delete(service: Service, target: Target) -> None:
    with (
        translated(target.name, "delete", changes=True),
        service.session.until(target.deadline),
    ):
        try:
            service.bucket.blob(target.key).delete(retry=None, if_generation_match=OTHER)
        except PreconditionFailed:
            return
    raise _unconditional(service, "a deletion could remove what came later")


def _scratch(service: Service, name: str) -> Target:
    return Target(
        name=name,
        key=service.key(name, "create"),
        operation="create",
        deadline=service.deadline(0),
    )


def _remove(service: Service, target: Target) -> None:
    with suppress(Exception), service.session.until(service.deadline(0)):
        service.bucket.blob(target.key).delete(retry=None)


def _unconditional(service: Service, danger: str) -> CapabilityError:
    return CapabilityError(
        f"the service ignores ifGenerationMatch, so {danger}; "
        "gcs.unsafe_without_preconditions takes the risk",
        bucket=service.settings.bucket,
    )
