"""Large values: putting a stream, and reading a value as a file, for blocking callers."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from siltstone.core.errors import SiltstoneError
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
from siltstone.objects.large_upload import UPLOAD_BYTES
from siltstone.store.blocking.background_loop import awaited
from siltstone.store.handles.arguments import check_stream

if TYPE_CHECKING:
    from typing import SupportsIndex

    from typing_extensions import Buffer as AnyBuffer

    from siltstone.core.bytes_like import BytesLike
    from siltstone.objects.async_large import AsyncLargeValues
    from siltstone.objects.batch import PutResult
    from siltstone.objects.changes import PutRequest
    from siltstone.objects.object_views import ObjectHead
    from siltstone.objects.open_value import AsyncOpenValue
    from siltstone.store.blocking.background_loop import BackgroundLoop


class OpenValue(io.RawIOBase):
    """The value of an object as a file that can be read. See ``AsyncOpenValue``.

    ``read`` gives what is left of the piece that it is in, so fewer bytes than asked for are not
    the end. Wrap it in ``io.BufferedReader`` for those who expect more. For one thread at a time.

    Attributes:
        head: of the object.
    """

    def __init__(self, loop: BackgroundLoop, value: AsyncOpenValue) -> None:
        super().__init__()
        self.head: ObjectHead = value.head
        self._loop = loop
        self._value = value
        self._position = 0

    @property
    def size(self) -> int:
        """Bytes of the value."""
        return self._value.size

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Where the next byte is."""
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to an offset, from the beginning, from here or from the end."""
        self._check_open()
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += self.size
        elif whence != os.SEEK_SET:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        if offset < 0:
            raise ValueError(f"negative seek position {offset}")
        self._position = offset
        return offset

    def readinto(self, buffer: AnyBuffer, /) -> int:
        """Fill ``buffer`` from the position on. Raises what ``AsyncOpenValue.read`` does."""
        self._check_open()
        view = memoryview(buffer).cast("B")
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """Read what is left."""
        self._check_open()
        parts = []
        while data := self._read(UPLOAD_BYTES):
            parts.append(data)
        return b"".join(parts)

    def _read(self, length: int) -> bytes:
        start, end = self._position, min(self._position + length, self.size)
        if start >= end:
            return b""
        data = self._value.now(start, end)
        if data is None:
            data = self._loop.run(self._value.read(start, end - start))
        self._position += len(data)
        return data

    def close(self) -> None:
        """End it. Idempotent."""
        if not self.closed:
            self._value.close_now()
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


class LargeValueVerbs:
    """What a keyspace does with values that are not in memory as a whole."""

    __slots__ = ()

    _loop: BackgroundLoop

    @property
    @abstractmethod
    def _large(self) -> AsyncLargeValues:
        """What runs on the loop."""

    def put_from(
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

        The stream is read by this thread. See ``AsyncKeyspace.put_from``.
        """
        check_stream(stream)
        self._loop.check_caller()
        request = put_request(
            self._large.key_of(tag, bucket, key),
            b"",
            metadata=metadata,
            index=index,
            specs=specs,
            expected=expected,
            ttl_s=ttl_s,
            value_hash=value_hash,
        )
        return self._put_stream(request, stream, hashed=value_hash is None)

    def _put_stream(self, request: PutRequest, stream: BinaryIO, *, hashed: bool) -> PutResult:
        keyspace, run = self._large, self._loop.run
        source = keyspace.stream_value(request, stream, hashed=hashed)
        parts, large = source.beginning(keyspace.record_value_max)
        if not large:
            small = with_value(request, b"".join(parts), hashed=hashed)
            return run(awaited(partial(keyspace.put_now, small)))
        upload = run(keyspace.begin_upload())
        try:
            for part in parts:
                run(upload.push(part))
            while part := source.read():  # meanwhile the part before becomes durable
                run(upload.push(part))
            return run(upload.put(request, source.sums))
        except BaseException:
            with suppress(SiltstoneError):  # the store was closed: the next opening deletes it
                run(upload.abort())
            raise

    def open_value(self, bucket: Name, key: Name, *, tag: str = STANDARD) -> OpenValue | None:
        """Return the value of an object as a file; ``None`` when there is no object.

        See ``AsyncKeyspace.open_value``.
        """
        value = self._loop.run(self._large.open_value(bucket, key, tag=tag))
        return None if value is None else OpenValue(self._loop, value)
