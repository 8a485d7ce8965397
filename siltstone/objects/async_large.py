"""Large values: putting a stream, and reading a value by parts, for asyncio."""

from __future__ import annotations

import asyncio
import io
from abc import abstractmethod
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final

from siltstone.core.environment import Pool
from siltstone.objects.changes import (
    STANDARD,
    Expected,
    Name,
    Spec,
    Terms,
    Unset,
    put_request,
    with_value,
)
from siltstone.objects.large_upload import UPLOAD_BYTES, StreamValue, ValueSums, begin_upload
from siltstone.objects.open_value import AsyncOpenValue, open_value
from siltstone.store.handles.arguments import check_stream

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.core.bytes_like import BytesLike
    from siltstone.objects.batch import PutResult
    from siltstone.objects.changes import PutRequest
    from siltstone.objects.large_upload import LargeUpload
    from siltstone.objects.object_views import StoredObject
    from siltstone.objects.open_space import OpenSpace
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey

_STREAMS: Final = Pool(name="siltstone-values", threads=8)


class AsyncLargeValues:
    """What a keyspace does with values that are not in memory as a whole."""

    __slots__ = ()

    _space: OpenSpace

    @abstractmethod
    def key_of(self, tag: str, bucket: Name, key: Name) -> ObjectKey:
        """Return the key of an object of this keyspace."""

    @abstractmethod
    def put_now(self, request: PutRequest) -> asyncio.Future[PutResult]:
        """Put what ``put_request`` made."""

    @abstractmethod
    async def get_key(self, found: ObjectKey) -> StoredObject | None:
        """Return an object with its value."""

    @abstractmethod
    async def _visible(self, key: ObjectKey) -> Head | None:
        """Return the head of an object, unless it has expired."""

    async def put_from(
        self,
        bucket: Name,
        key: Name,
        stream: BinaryIO,
        *,
        tag: str = STANDARD,
        metadata: BytesLike = b"",
        index: Terms | None = None,
        specs: Iterable[Spec] | None = None,
        expected: Expected | SupportsIndex = Unset.ANY,
        ttl_s: SupportsIndex | None = None,
        value_hash: BytesLike | None = None,
    ) -> PutResult:
        """Set an object to what a stream has up to its end, in constant memory.

        The change takes effect as a whole when all bytes are durable; until then the object is as
        it was, and so it stays when the stream fails or the caller is cancelled. ``expected`` is
        looked at then, and ``ttl_s`` begins. Otherwise like ``put``.

        Args:
            bucket: as for ``put``, like the others.
            key: the same.
            stream: a file that was opened to be read, as bytes; read on a thread.
            tag: the same.
            metadata: the same.
            index: the same.
            specs: the same.
            expected: the same.
            ttl_s: the same.
            value_hash: the same.

        Raises what ``put`` and the stream raise, and:
            ObjectLimitError: metadata, index or names are too long; nothing was read.
        """
        check_stream(stream)
        request = put_request(
            self.key_of(tag, bucket, key),
            b"",
            metadata=metadata,
            index=index,
            specs=specs,
            expected=expected,
            ttl_s=ttl_s,
            value_hash=value_hash,
        )
        return await self._put_stream(request, stream, hashed=value_hash is None)

    def put_large(self, request: PutRequest) -> asyncio.Future[PutResult]:
        """Put a value that is larger than a record may have."""
        stream = io.BytesIO(request.value)
        put = asyncio.ensure_future(
            self._put_stream(request, stream, hashed=not request.value_hash)
        )
        self._space.keep(put)
        return put

    async def _put_stream(
        self, request: PutRequest, stream: BinaryIO, *, hashed: bool
    ) -> PutResult:
        space = self._space
        source = self.stream_value(request, stream, hashed=hashed)
        run = partial(space.parts.store.environment.run_blocking, _STREAMS)
        most = self.record_value_max
        parts, large = await run(lambda: source.beginning(most))
        if not large:
            small = with_value(request, b"".join(parts), hashed=hashed)
            return await space.batches.put(small)
        upload = await self.begin_upload()
        try:
            for part in parts:
                await upload.push(part)
            while part := await run(source.read):  # meanwhile the part before becomes durable
                await upload.push(part)
            return await upload.put(request, source.sums)
        except BaseException:
            await asyncio.shield(upload.abort())
            raise

    @property
    def record_value_max(self) -> int:
        """Most bytes of a value that is in a record."""
        return self._space.record_value_max

    async def begin_upload(self) -> LargeUpload:
        """Begin to upload a larger value."""
        return await begin_upload(self._space.parts, self._space.batches)

    def stream_value(self, request: PutRequest, stream: BinaryIO, *, hashed: bool) -> StreamValue:
        """A stream as the value of an object."""
        sums = ValueSums(self._space.limits.piece, request.metadata if hashed else None)
        return StreamValue(stream, UPLOAD_BYTES, sums)

    async def open_value(
        self, bucket: Name, key: Name, *, tag: str = STANDARD
    ) -> AsyncOpenValue | None:
        """Return what reads the value of an object by parts; ``None`` when there is no object.

        It reads the value that the object has now, whatever becomes of the object.

        Raises:
            LostObjectError: the value is damaged or gone; with ``objects.lost: missing`` in the
                settings the answer is ``None`` where opening finds that.
            ChunkError: long-term storage refused, or did not answer.
        """
        found = self.key_of(tag, bucket, key)
        return await open_value(
            self._space.parts,
            found,
            lambda: self._visible(found),
            lambda _: self.get_key(found),
        )
