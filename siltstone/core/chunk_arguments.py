"""What every binding checks before it speaks to its service: names, buffers and offsets.

Only rules of the contract are here; a rule of one service is in its binding.
"""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.core.chunk_storage import WHOLE_CREATE_BYTES_MAX, Buffer, Capabilities
from siltstone.core.errors import CapabilityError, ChunkNameError

CHUNK_NAME_BYTES_MAX = 1_024
"""The longest key that all services take."""


def check_chunk_name(name: str, operation: str) -> bytes:
    """Return the UTF-8 bytes of ``name`` if it can be a key.

    Raises:
        TypeError: not a string.
        ChunkNameError: empty, over 1,024 bytes, with NUL, a lone surrogate, or a part that is
            empty, ``.`` or ``..``.
    """
    key = _encoded(name, operation)
    if not key:
        raise _refused("name is empty", name, operation)
    if len(key) > CHUNK_NAME_BYTES_MAX:
        raise _refused("name is too long", name, operation)
    if b"\0" in key:
        raise _refused("name holds a NUL byte", name, operation)
    parts = b"/%b/" % key
    if b"//" in parts or b"/./" in parts or b"/../" in parts:
        raise _refused("a part of the name is empty, '.' or '..'", name, operation)
    return key


def is_chunk_name(name: str) -> bool:
    """Whether ``name`` can be a key; any other name in a listing is another program's."""
    try:
        check_chunk_name(name, "list")
    except ChunkNameError:
        return False
    return True


def can_begin_names(prefix: str) -> bool:
    """Whether there can be a key that begins with ``prefix``, by its whole parts."""
    return not any(part in ("", ".", "..") or "\0" in part for part in prefix.split("/")[:-1])


def check_listing(prefix: str, start_after: str) -> tuple[bytes, bytes]:
    """Return the UTF-8 bytes of both arguments of ``list``; neither need be a valid key.

    Raises:
        TypeError: not a string.
        ChunkNameError: a lone surrogate.
    """
    return _encoded(prefix, "list"), _encoded(start_after, "list")


def check_buffers(buffers: Sequence[Buffer]) -> int:
    """Return how many bytes ``buffers`` hold, which must be one at least.

    Raises:
        TypeError: one bytes-like object instead of a sequence of them, or none at all.
        ValueError: no byte, or a buffer that is not contiguous or not of single bytes.
    """
    if isinstance(buffers, bytes | bytearray | memoryview):
        raise TypeError("buffers is a sequence of bytes-like objects")
    length = 0
    for buffer in buffers:
        if not isinstance(buffer, bytes | bytearray | memoryview):
            raise TypeError(f"a buffer is bytes-like, not {type(buffer).__name__}")
        if isinstance(buffer, memoryview) and (buffer.itemsize != 1 or not buffer.c_contiguous):
            raise ValueError("a buffer is contiguous and of single bytes")
        length += len(buffer)
    if length == 0:
        raise ValueError("buffers hold no byte")
    return length


def check_target(buffer: memoryview | bytearray) -> None:
    """Check that a read may fill ``buffer``.

    Raises:
        TypeError: not a bytearray or memoryview, or one that cannot be changed.
        ValueError: it is not contiguous or not of single bytes.
    """
    if isinstance(buffer, bytearray):
        return
    if not isinstance(buffer, memoryview):
        raise TypeError(f"a read fills a bytearray or memoryview, not {type(buffer).__name__}")
    if buffer.readonly:
        raise TypeError("a read fills a buffer that can be changed")
    if buffer.itemsize != 1 or not buffer.c_contiguous:
        raise ValueError("a buffer is contiguous and of single bytes")


def check_chunk_length(length: int, capabilities: Capabilities) -> None:
    """Check that a chunk may be of ``length`` bytes. Raises ``ValueError``."""
    if length > capabilities.chunk_bytes_max:
        raise ValueError(
            f"chunk would be too large length={length} max={capabilities.chunk_bytes_max}"
        )


def check_whole(buffers: Sequence[Buffer], capabilities: Capabilities) -> int:
    """Return how many bytes ``buffers`` hold, if a whole create can have them.

    Raises:
        TypeError: see ``check_buffers``.
        ValueError: see ``check_buffers``, or more than ``WHOLE_CREATE_BYTES_MAX``.
    """
    length = check_buffers(buffers)
    if length > WHOLE_CREATE_BYTES_MAX:
        raise ValueError(
            f"too large for a whole create length={length} max={WHOLE_CREATE_BYTES_MAX}"
        )
    check_chunk_length(length, capabilities)
    return length


def check_offset(offset: int) -> None:
    """Check that ``offset`` can be a position. Raises ``ValueError``."""
    if offset < 0:
        raise ValueError(f"offset is below 0 offset={offset}")


def check_concat(
    target: str, sources: Sequence[tuple[str, int]], capabilities: Capabilities
) -> int:
    """Return the length of the new chunk if the service can make it of ``sources``.

    Raises:
        CapabilityError: the service cannot concat.
        ChunkNameError: a name cannot be a key.
        ValueError: no source, too many, a part too small or too large, or too long a chunk.
    """
    require("concat", able=capabilities.concat)
    check_chunk_name(target, "concat")
    if not 1 <= len(sources) <= capabilities.concat_parts_max:
        raise ValueError(
            f"wrong count of parts count={len(sources)} max={capabilities.concat_parts_max}"
        )
    total = 0
    for index, (name, length) in enumerate(sources):
        check_chunk_name(name, "concat")
        is_last = index == len(sources) - 1
        least = 1 if is_last else max(1, capabilities.concat_part_bytes_min)
        if not least <= length <= capabilities.concat_part_bytes_max:
            raise ValueError(
                f"part has a wrong length index={index} length={length} min={least} "
                f"max={capabilities.concat_part_bytes_max}"
            )
        total += length
    check_chunk_length(total, capabilities)
    return total


def require(capability: str, *, able: bool) -> None:
    """Check that the service has a capability. Raises ``CapabilityError``."""
    if not able:
        raise CapabilityError("the service cannot do this", capability=capability)


def _encoded(name: str, operation: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"a chunk name is a str, not {type(name).__name__}")
    try:
        return name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _refused("name is not valid unicode", name, operation) from error


def _refused(reason: str, name: str, operation: str) -> ChunkNameError:
    return ChunkNameError(reason, chunk=ascii(name[:80]), operation=operation)
