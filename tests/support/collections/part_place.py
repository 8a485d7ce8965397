"""A place for parts in memory, which counts what is read."""

from __future__ import annotations

from collections.abc import Iterable

from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.stored_run import Piece


class PartPlace:
    """Objects by name."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, int, int]] = []

    def put(self, encoded: EncodedPart) -> Piece:
        """Keep a part; inline ones need no place."""
        if encoded.part.inline is not None:
            return Piece(encoded.part, "")
        name = f"part-{len(self.objects)}"
        self.objects[name] = b"".join(encoded.buffers)
        return Piece(encoded.part, name)

    def put_run(self, parts: Iterable[EncodedPart]) -> tuple[Piece, ...]:
        """Keep the parts of a run."""
        return tuple(self.put(part) for part in parts)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Read a range of an object."""
        self.requests.append((name, offset, length))
        return self.objects[name][offset : offset + length]
