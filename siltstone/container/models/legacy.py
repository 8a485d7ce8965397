"""How a store is told to continue to write in a legacy layout: frozen values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacySegment:
    """A segment whose files are chunks in place, and how its layout continues.

    Attributes:
        name: in the store.
        source: in the layout.
        rolling_bytes: a file with this many bytes gets no more; at least 1.
        suffix: what stands after the names of its files.
        header: the bytes of its header; ``None`` when it has none.
        listed: key, below the prefix, of an empty last file that the header lists; else empty.
        bare: whether it has bytes and no header lists them.
        sealed: whether the files say that it is sealed.
    """

    name: str
    source: str
    rolling_bytes: int
    suffix: str = ""
    header: bytes | None = None
    listed: str = ""
    bare: bool = False
    sealed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyLayout:
    """A legacy layout in which a store is to continue to write.

    Attributes:
        adoption: that its files belong to.
        prefix: of their keys on long-term storage; empty, or with ``/`` at its end.
        under: what names in the store begin with.
        rolling_bytes: of new segments.
        suffix: of the files of new segments.
    """

    adoption: str
    prefix: str
    under: str
    rolling_bytes: int
    suffix: str = ""
