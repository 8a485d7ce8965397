"""What is tried on the service before anything relies on it.

Opening lists one key, which tells a wrong bucket, region or key of access. The first change that a
process makes in a bucket is preceded by a proof that a create cannot overwrite; it needs the right
to write, which a reader may not have. Scratch objects lie where those of ``siltstone doctor``
do, so it removes what a crash leaves.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Final

from botocore.exceptions import ClientError, ParamValidationError

from siltstone.bindings.s3.errors import code_of, status_of, translated
from siltstone.bindings.s3.service import Service
from siltstone.core.errors import CapabilityError, ChunkError, SettingsError
from siltstone.core.remote.answers import whole
from siltstone.core.remote.proofs import Proofs

WRONG_PLACE: Final = frozenset(
    {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)

PROOFS: Final = Proofs()


def look(service: Service) -> None:
    """List one key: the cheapest request that shows bucket, region, credentials and one right.

    Raises:
        SettingsError: there is no such bucket, or it is in another region.
        ChunkError: the service refused, or did not answer.
    """
    settings = service.settings
    with translated(settings.folder, "list"):
        try:
            page = service.client.list_objects_v2(
                Bucket=service.bucket, Prefix=settings.folder, MaxKeys=1
            )
            whole(page, ["IsTruncated"], settings.folder, "list")
        except ParamValidationError as error:
            raise SettingsError(_no_name(service)) from error
        except ClientError as error:
            if code_of(error) == "InvalidBucketName":
                raise SettingsError(_no_name(service)) from error
            if code_of(error) == "NoSuchBucket":
                raise SettingsError(
                    f"s3.bucket: there is no bucket {settings.bucket!r} at this endpoint"
                ) from error
            if code_of(error) in WRONG_PLACE or status_of(error) in (301, 302, 307):
                raise SettingsError(_elsewhere(service, error)) from error
            raise


def prove(service: Service) -> None:
    """Make sure, once in a process and bucket, that creates are exclusive and appends append.

    Raises:
        CapabilityError: the service ignores the condition of a create, or does not know it; or it
            does not append as the settings say.
        ChunkError: the service failed meanwhile; the next change tries again.
    """
    settings = service.settings
    if settings.unsafe_without_conditional_create:
        return
    proof = (settings.endpoint, settings.region, settings.bucket, settings.append)
    PROOFS.make_sure(proof, partial(_prove, service))


def _prove(service: Service, folder: str) -> None:
    _prove_create(service, f"{folder}create")
    if service.settings.append is not None:
        _prove_append(service, f"{folder}append")


def _prove_create(service: Service, name: str) -> None:
    key = service.key(name, "create")
    try:
        with translated(name, "create", changes=True):
            try:
                _put(service, key, b"first", IfNoneMatch="*")
            except ClientError as error:
                if status_of(error) == 501:
                    raise _unimplemented(service, key) from error
                raise
            try:
                _put(service, key, b"second", IfNoneMatch="*")
            except ClientError as error:
                if status_of(error) == 412:
                    return
                raise
        raise _unconditional(service)
    finally:
        _remove(service, key)


def _prove_append(service: Service, name: str) -> None:
    key = service.key(name, "create")
    wrong = CapabilityError("the bucket does not append, remove s3.append", bucket=service.bucket)
    try:
        with translated(name, "write", changes=True):
            _put(service, key, b"one", IfNoneMatch="*")
            try:
                _put(service, key, b"two", WriteOffsetBytes=3)
            except ClientError as error:
                if 400 <= status_of(error) < 500 or status_of(error) == 501:
                    raise wrong from error
                raise
            found = service.client.get_object(Bucket=service.bucket, Key=key)["Body"].read()
        if found != b"onetwo":
            raise wrong
    finally:
        _remove(service, key)


def _put(service: Service, key: str, content: bytes, **arguments: Any) -> None:
    service.client.put_object(
        Bucket=service.bucket, Key=key, Body=content, **arguments, **service.storing()
    )


def _remove(service: Service, key: str) -> None:
    with suppress(ChunkError), translated("", "delete"):
        service.client.delete_object(Bucket=service.bucket, Key=key)


def _unimplemented(service: Service, key: str) -> CapabilityError:
    """What the service does not know of a create: its condition, or how the object is kept."""
    try:
        _put(service, key, b"first")
    except ClientError as error:
        if status_of(error) != 501:
            raise
        return CapabilityError(
            "the service does not know s3.encryption or s3.storage_class as they are set",
            bucket=service.bucket,
        )
    return _unconditional(service)


def _unconditional(service: Service) -> CapabilityError:
    return CapabilityError(
        "the service ignores If-None-Match, so a create could overwrite a chunk; "
        "s3.unsafe_without_conditional_create takes the risk",
        bucket=service.bucket,
    )


def _no_name(service: Service) -> str:
    return f"s3.bucket: {service.bucket!r} is no name of a bucket at this endpoint"


def _elsewhere(service: Service, error: ClientError) -> str:
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    region = headers.get("x-amz-bucket-region") or error.response.get("Error", {}).get("Region")
    where = f"in region {region!r}" if region else "in another region, or at another endpoint"
    return f"s3.region: bucket {service.bucket!r} is {where}, not {service.settings.region!r}"
