"""Joining objects on the service: what is large enough is copied there, the rest through here.

The service takes parts of 5 MiB and more, but for the last one. So a smaller source is read, with
as much of its neighbour as makes a part, and sent again; at most 10 MiB a thread are in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from botocore.exceptions import ClientError

from siltstone.bindings.s3.errors import replaced, status_of, translated
from siltstone.bindings.s3.reads import read_range
from siltstone.bindings.s3.service import Service
from siltstone.bindings.s3.settings import PART_BYTES_MAX, PART_BYTES_MIN, Checksums
from siltstone.bindings.s3.uploads import Part, Sender, head, put, send_part, upload
from siltstone.core.remote.answers import whole
from siltstone.core.remote.ranges import RangeRead
from siltstone.core.remote.sources import looked_at
from siltstone.core.remote.target import Target


class Slice(NamedTuple):
    """Bytes of a source: its place in the list of sources, and a range."""

    source: int
    start: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPart:
    """A part of the new object.

    Attributes:
        slices: what it holds, in order.
        copied: whether the service copies it; then there is one slice.
    """

    slices: tuple[Slice, ...]
    copied: bool

    @property
    def length(self) -> int:
        """Length in bytes."""
        return sum(piece.length for piece in self.slices)


class _Plan:
    """Parts so far, and slices that are too small for a part of their own."""

    def __init__(self, least: int, most: int) -> None:
        self.parts: list[JoinPart] = []
        self._least = least
        self._most = most
        self._held: list[Slice] = []
        self._held_length = 0

    def add(self, source: int, length: int, *, is_last: bool) -> None:
        start = 0
        if self._held:
            start = min(length, self._least - self._held_length)
            if length - start < self._least:
                start = length
            self._hold(Slice(source, 0, start))
        rest = length - start
        if rest and (rest >= self._least or (is_last and not self._held)):
            self._copy(source, start, rest)
        elif rest:
            self._hold(Slice(source, start, rest))

    def finished(self) -> list[JoinPart]:
        self._release()
        return self.parts

    def _hold(self, piece: Slice) -> None:
        self._held.append(piece)
        self._held_length += piece.length
        if self._held_length >= self._least:
            self._release()

    def _release(self) -> None:
        if self._held:
            self.parts.append(JoinPart(slices=tuple(self._held), copied=False))
        self._held, self._held_length = [], 0

    def _copy(self, source: int, start: int, length: int) -> None:
        """Copy in as few parts of equal size as there can be."""
        count = -(-length // self._most)
        step = -(-length // count)
        end = start + length
        while start < end:
            piece = Slice(source, start, min(step, end - start))
            self.parts.append(JoinPart(slices=(piece,), copied=True))
            start += piece.length


def plan_join(
    lengths: Sequence[int], least: int = PART_BYTES_MIN, most: int = PART_BYTES_MAX
) -> list[JoinPart]:
    """Plan the parts of a join of sources of these lengths, each above 0.

    Every part but the last has ``least`` bytes or more; a copied one has ``most`` or fewer, one
    through memory fewer than twice ``least``.
    """
    plan = _Plan(least, most)
    for index, length in enumerate(lengths):
        plan.add(index, length, is_last=index == len(lengths) - 1)
    return plan.finished()


def join(service: Service, target: Target, sources: Sequence[tuple[str, int]]) -> None:
    """Make the object ``target`` of the first ``length`` bytes of each ``(name, length)``.

    Raises:
        ChunkNotFoundError: a source is not there.
        ChunkOffsetError: a source is too short.
        ChunkUnavailableError: a source was replaced meanwhile, or the service failed.
    """
    look = partial(head, service, operation="concat", deadline=target.deadline)
    found = looked_at(service, sources, look, lambda told: int(told["ContentLength"]))
    versions = {name: str(told["ETag"]) for name, told in found.items()}
    work = _Join(service, target, [name for name, _ in sources], versions)
    parts = plan_join([length for _, length in sources])
    if len(parts) == 1 and not parts[0].copied:
        content = work.gathered(parts[0])
        put(service, target, [content], len(content))
        return
    senders: list[Sender] = [
        partial(work.copy if part.copied else work.send, part) for part in parts
    ]
    length = sum(part.length for part in parts)
    upload(service, target, senders, length, _checksums(service))


@dataclass(frozen=True, slots=True)
class _Join:
    """One join under way: what its parts are made of.

    Attributes:
        service: where all of it lies.
        target: the new object.
        names: of the sources, in order.
        versions: what each source was when it was looked at.
    """

    service: Service
    target: Target
    names: Sequence[str]
    versions: Mapping[str, str]

    def copy(self, part: JoinPart, upload_id: str, number: int) -> Part:
        """Let the service copy a part."""
        service, piece = self.service, part.slices[0]
        name = self.names[piece.source]
        with translated(name, "concat"):
            self.target.deadline.check()
            try:
                answer = service.client.upload_part_copy(
                    Bucket=service.bucket,
                    Key=self.target.key,
                    UploadId=upload_id,
                    PartNumber=number,
                    CopySource={"Bucket": service.bucket, "Key": service.key(name, "concat")},
                    CopySourceRange=f"bytes={piece.start}-{piece.start + piece.length - 1}",
                    CopySourceIfMatch=self.versions[name],
                )
            except ClientError as error:
                if status_of(error) == 412:
                    raise replaced(name, "concat") from error
                raise
        made = whole(answer.get("CopyPartResult", {}), ["ETag"], name, "concat")
        return Part(etag=made["ETag"], length=piece.length)

    def send(self, part: JoinPart, upload_id: str, number: int) -> Part:
        """Read a part and send it again."""
        sums = _checksums(self.service)
        return send_part(self.service, self.target, [self.gathered(part)], upload_id, number, sums)

    def gathered(self, part: JoinPart) -> bytearray:
        """Read the slices of a part into one buffer."""
        content = bytearray(part.length)
        position = 0
        for piece in part.slices:
            name = self.names[piece.source]
            asked = RangeRead(
                name=name,
                key=self.service.key(name, "concat"),
                operation="concat",
                offset=piece.start,
                length=piece.length,
                deadline=self.service.deadline(piece.length),
                version=self.versions[name],
            )
            view = memoryview(content)[position : position + piece.length]
            count = read_range(self.service, asked, view)
            if count != piece.length:
                raise replaced(name, "concat")
            position += count
        return content


def _checksums(service: Service) -> Checksums:
    """How parts of a join are checked on their way.

    There is no sum of what the service copies. Some services then refuse the copies of an upload
    that is to have one, and some keep a wrong one; so it has none, and parts are checked alone.
    """
    chosen = service.settings.checksums
    return Checksums.MD5 if chosen is Checksums.CRC32C else chosen
