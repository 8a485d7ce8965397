"""Removing objects: one that must be there, many at once, and uploads never completed."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final

from botocore.exceptions import ClientError

from siltstone.bindings.s3.errors import answered, code_of, status_of, translated
from siltstone.bindings.s3.service import Service
from siltstone.bindings.s3.uploads import head
from siltstone.core.errors import (
    ChunkError,
    ChunkNotFoundError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.remote.answers import whole

BULK_MAX: Final = 1_000
"""Keys of one request, as the service has it."""
NOT_IN_XML: Final = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
"""Keys with these cannot be named in the body of a request, or come back as others."""


def delete(service: Service, name: str, key: str) -> None:
    """Remove an object that is there: a HEAD and a DELETE, for a DELETE alone does not tell."""
    head(service, name, key, "delete")
    _remove(service, name, key)


def delete_many(service: Service, names: Sequence[str]) -> dict[str, ChunkError]:
    """Remove objects, as many as a request takes at a time; return why some are still there.

    Raises:
        ChunkError: a whole request failed; of its names and those after them nothing is known.
    """
    keys = {service.key(name, "delete"): name for name in names}
    failed: dict[str, ChunkError] = {}
    for key in [key for key in keys if NOT_IN_XML.search(key)]:
        try:
            _remove(service, keys[key], key)
        except ChunkNotFoundError:
            pass
        except ChunkError as error:
            failed[keys[key]] = error
        del keys[key]
    listed = list(keys)
    for begin in range(0, len(listed), BULK_MAX):
        part = listed[begin : begin + BULK_MAX]
        with translated(keys[part[0]], "delete", changes=True):
            answer = service.client.delete_objects(
                Bucket=service.bucket,
                Delete={"Quiet": False, "Objects": [{"Key": key} for key in part]},
            )
        # A quiet answer would be empty, and so like anything that is no answer of the service.
        told = answer.get("Deleted", ()) or answer.get("Errors", ())
        whole({"Deleted": told} if told else {}, ["Deleted"], keys[part[0]], "delete", changes=True)
        reasons = {entry.get("Key"): entry.get("Code", "") for entry in answer.get("Errors", ())}
        gone = {entry.get("Key") for entry in answer.get("Deleted", ())}
        for key in part:
            reason = _not_deleted(keys[key], reasons.get(key), said=key in gone)
            if reason is not None:
                failed[keys[key]] = reason
    return failed


def sweep_uploads(service: Service, prefix: str, age_s: float) -> int:
    """Abort the uploads of keys that begin with ``prefix`` and are older than ``age_s``."""
    before = time.time() - age_s
    count = 0
    arguments = {"Bucket": service.bucket, "Prefix": service.settings.folder + prefix}
    while True:
        service.check_open()
        with translated(prefix, "sweep_leftovers"):
            page = service.client.list_multipart_uploads(**arguments)  # type: ignore[arg-type]
            old = [
                (found["Key"], found["UploadId"])
                for found in page.get("Uploads", ())
                if found["Initiated"].timestamp() <= before
            ]
            if page.get("IsTruncated"):
                arguments["KeyMarker"] = page["NextKeyMarker"]
                arguments["UploadIdMarker"] = page["NextUploadIdMarker"]
        for key, upload_id in old:
            count += _aborted(service, key, upload_id)
        if not page.get("IsTruncated"):
            return count


def _aborted(service: Service, key: str, upload_id: str) -> bool:
    """Abort one upload; ``False`` when it is gone already."""
    with translated(service.name(key), "sweep_leftovers", changes=True):
        try:
            service.client.abort_multipart_upload(
                Bucket=service.bucket, Key=key, UploadId=upload_id
            )
        except ClientError as error:
            if status_of(error) == 404 and code_of(error) != "NoSuchBucket":
                return False
            raise
    return True


def _remove(service: Service, name: str, key: str) -> None:
    with translated(name, "delete", changes=True):
        service.client.delete_object(Bucket=service.bucket, Key=key)


def _not_deleted(name: str, code: str | None, *, said: bool) -> ChunkError | None:
    """Why one name of an answer may still be there; ``None`` if it is gone.

    Args:
        name: of the chunk.
        code: of the error that the answer has for it.
        said: whether the answer says that it is deleted. One that is silent is perhaps no answer of
            the service at all.
    """
    if code is None:
        if said:
            return None
        return ChunkUnavailableError(
            "the answer does not say what became of it",
            chunk=name,
            operation="delete",
            outcome=Outcome.UNKNOWN,
        )
    error = ClientError({"Error": {"Code": code, "Message": ""}}, "DeleteObjects")
    reason = answered(error, name, "delete", changes=True)
    return None if isinstance(reason, ChunkNotFoundError) else reason
