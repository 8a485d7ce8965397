"""Making an object that did not exist: by one request, or in parts of which the last one counts.

The object appears with the request that carries ``If-None-Match``, and with no other. So a failure
before that one had no effect, whatever it was. An upload that failed is aborted if that succeeds at
once, and else by ``leftovers``; until then it costs room and is not visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from siltstone.bindings.s3.checksums import of_body, of_upload
from siltstone.bindings.s3.errors import is_conflict, translated
from siltstone.bindings.s3.service import Service
from siltstone.bindings.s3.settings import PART_BYTES_MAX, Checksums
from siltstone.core.checksums import combine, crc_text
from siltstone.core.constants import MIB, Buffer
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    Outcome,
)
from siltstone.core.remote.answers import whole
from siltstone.core.remote.body import pieces, sendable
from siltstone.core.remote.deadline import Deadline
from siltstone.core.remote.target import Target

if TYPE_CHECKING:
    from types_boto3_s3.type_defs import CompletedPartTypeDef

PARTS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part that the service has.

    Attributes:
        etag: what the service calls it.
        length: in bytes.
        crc: its CRC32C, if it is known.
        sum: the same sum, as the service stated it or was told it.
    """

    etag: str
    length: int
    crc: int | None = None
    sum: str | None = None


Sender = Callable[[str, int], Part]
"""Gives a part to an upload, by the upload's id and the part's number."""


def put(service: Service, target: Target, buffers: Sequence[Buffer], length: int) -> None:
    """Make an object by one request."""
    arguments, _ = of_body(service.settings.checksums, buffers)
    body = sendable(buffers, length, target.deadline)
    with conditional(service, target):
        answer = service.client.put_object(
            Bucket=service.bucket,
            Key=target.key,
            Body=body,  # type: ignore[arg-type]
            **condition(service),
            **arguments,
            **service.storing(),
        )
    whole(answer, ["ETag"], target.name, target.operation, changes=True)


def put_in_parts(service: Service, target: Target, buffers: Sequence[Buffer], length: int) -> None:
    """Make an object of parts of equal length, several of them on their way at a time."""
    step = part_bytes(length, service.settings.part_bytes)
    senders = [
        partial(send_part, service, target, piece) for piece in pieces(buffers, length, step)
    ]
    upload(service, target, senders, length)


def upload(
    service: Service,
    target: Target,
    senders: Sequence[Sender],
    length: int,
    checksums: Checksums | None = None,
) -> None:
    """Begin an upload, send its parts, and complete it on the condition that nothing is there.

    Args:
        service: where.
        target: what is made.
        senders: give the parts.
        length: of all of them.
        checksums: how they are checked, if it is not as the settings say.
    """
    with translated(target.name, target.operation):
        upload_id = service.client.create_multipart_upload(
            Bucket=service.bucket,
            Key=target.key,
            **of_upload(checksums or service.settings.checksums),
            **service.storing(),
        )["UploadId"]
    try:
        calls = [partial(send, upload_id, number) for number, send in enumerate(senders, 1)]
        parts = service.side_by_side(calls)
        _complete(service, target, upload_id, parts, length)
    except ChunkError as error:
        if error.outcome is Outcome.NOT_APPLIED:
            _abort(service, target.key, upload_id)
        # Else it may just be completing, and is left to its end.
        raise
    except BaseException:
        _abort(service, target.key, upload_id)
        raise


def send_part(
    service: Service,
    target: Target,
    buffers: Sequence[Buffer],
    upload_id: str,
    number: int,
    checksums: Checksums | None = None,
) -> Part:
    """Send bytes as one part."""
    length = sum(map(len, buffers))
    arguments, crc = of_body(checksums or service.settings.checksums, buffers)
    with translated(target.name, target.operation):
        answer = service.client.upload_part(
            Bucket=service.bucket,
            Key=target.key,
            UploadId=upload_id,
            PartNumber=number,
            Body=sendable(buffers, length, target.deadline),  # type: ignore[arg-type]
            **arguments,
        )
    whole(answer, ["ETag"], target.name, target.operation)
    told = arguments.get("ChecksumCRC32C")
    return Part(etag=answer["ETag"], length=length, crc=crc if told else None, sum=told)


def condition(service: Service) -> dict[str, Any]:
    """The condition of every create, unless the service is known to have none."""
    return {} if service.settings.unsafe_without_conditional_create else {"IfNoneMatch": "*"}


@contextmanager
def conditional(service: Service, target: Target) -> Iterator[None]:
    """Translate the one request that lets an object appear.

    A conflict says that another request for the same key was under way and that ours did nothing;
    whether there is an object now takes one look.
    """
    with translated.change(target):
        try:
            yield
        except ClientError as error:
            if is_conflict(error) and _is_there(service, target):
                raise target.error(ChunkExistsError, "chunk exists") from error
            raise


def _is_there(service: Service, target: Target) -> bool:
    try:
        head(service, target.name, target.key, target.operation)
    except ChunkError:
        return False
    return True


def head(
    service: Service, name: str, key: str, operation: str, deadline: Deadline | None = None
) -> Any:
    """What the service says of one object."""
    with translated(name, operation):
        if deadline is not None:
            deadline.check()
        reads = service.reads_of(operation, key)
        answer: Any
        if reads is not None:
            answer = reads.head(key, deadline or service.deadline(0))
        else:
            answer = service.client.head_object(Bucket=service.bucket, Key=key)
        return whole(answer, ["ContentLength", "ETag", "LastModified"], name, operation)


def part_bytes(length: int, wanted: int) -> int:
    """The size of the parts: what is wanted, or more where there would be too many."""
    least = -(-length // PARTS_MAX)
    return min(PART_BYTES_MAX, max(wanted, -(-least // MIB) * MIB))


def _complete(
    service: Service, target: Target, upload_id: str, parts: Sequence[Part], length: int
) -> None:
    listed: list[CompletedPartTypeDef] = []
    for number, part in enumerate(parts, 1):
        listed.append({"PartNumber": number, "ETag": part.etag})
        if part.sum is not None:
            listed[-1]["ChecksumCRC32C"] = part.sum
    with conditional(service, target):
        answer = service.client.complete_multipart_upload(
            Bucket=service.bucket,
            Key=target.key,
            UploadId=upload_id,
            MultipartUpload={"Parts": listed},
            MpuObjectSize=length,
            **condition(service),
            **_sum_of(parts),
        )
    whole(answer, ["ETag"], target.name, target.operation, changes=True)


def _sum_of(parts: Sequence[Part]) -> dict[str, Any]:
    """The checksum of all parts together, if each is known from its bytes."""
    value = 0
    for part in parts:
        if part.crc is None:
            return {}
        value = combine(value, part.crc, part.length)
    return {"ChecksumCRC32C": crc_text(value), "ChecksumType": "FULL_OBJECT"}


def _abort(service: Service, key: str, upload_id: str) -> None:
    with suppress(Exception):  # best effort: the failure before is the one to tell
        service.client.abort_multipart_upload(Bucket=service.bucket, Key=key, UploadId=upload_id)
