"""The names of the files of a legacy layout, by either of its two bindings.

::

    <segment>$header               what the segment's chunks are
    <segment>$offset.<start>       a chunk
    <segment>                      a segment without header: one file, which is its one chunk
    <name>.replace.tmp             a file that was being replaced, on a file system
    <name>_<epoch>, <name>_sealed  each of these on HDFS, open or sealed
    <name>_<offset>_<epoch>        the same before 0.3: of one name several files may follow one
                                   another, each from an offset in that chunk or header on
    <segment>$state                the original's note on a segment, before 0.5
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from siltstone.core.errors import StoreError
from siltstone.segments.simplified_layout import SIMPLIFIED, is_simplified

HEADER: Final = "$header"
REPLACING: Final = ".replace.tmp"

_CHUNK = re.compile(r"(.+)\$offset\.([0-9]+)", re.DOTALL)
_ON_FILES = re.compile(r".+(\$header|\$offset\.[0-9]+)(\.replace\.tmp)?", re.DOTALL)
_BEHIND: Final = r"(_[0-9]+(_[0-9]+)?|_sealed)"
_ON_HDFS = re.compile(_ON_FILES.pattern + _BEHIND, re.DOTALL)
_SUFFIX = re.compile(r"(.+)_([0-9]{1,19}|sealed)", re.DOTALL)
_LINK = re.compile(r"(.+)_([0-9]{1,19})_([0-9]{1,19})", re.DOTALL)
_ROLLED = re.compile(r".+(\$header|\$offset\.[0-9]+)", re.DOTALL)
_STATE = re.compile(r"(.+)\$state[12]?", re.DOTALL)
_STATE_ON_HDFS = re.compile(_STATE.pattern + _BEHIND, re.DOTALL)
_BOOKS: Final = "_system/containers/metadata"
"""With the number of a container after it, which is no offset."""


def header_of(segment: str) -> str:
    """Name of a segment's header."""
    return segment + HEADER


def chunk_of(segment: str, start: int) -> str:
    """Name of the chunk that a segment begins at an offset."""
    return f"{segment}$offset.{start}"


class LegacyLayoutError(StoreError):
    """What is there is no legacy layout, or not one alone. Nothing was changed.

    Attributes:
        where: the folder, or one file of it.
    """

    def __init__(self, message: str, *, where: str, **facts: Any) -> None:
        super().__init__(message, where=where, **facts)
        self.where = where


class NoLegacyLayoutError(LegacyLayoutError):
    """There is no file of a legacy layout, or no such place."""


class Naming(StrEnum):
    """Which binding wrote the files."""

    FILES = "files"
    """Sealed is a file without the owner's right to write."""
    HDFS = "hdfs"
    """Names end with the epoch of the writer, or say that the file is sealed. Before 0.3 they end
    with an offset and the epoch, and sealed is what it is on files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyName:
    """A name without what its binding put after it.

    Attributes:
        name: as headers know it.
        sealed: whether it says so; ``None`` where names do not tell.
        epoch: of the writer; ``None`` where names do not tell, or when it is sealed.
        offset: in what has that name, of the file's first byte; ``None`` where it is one file.
    """

    name: str
    sealed: bool | None = None
    epoch: int | None = None
    offset: int | None = None


def segment_of_chunk(name: str) -> tuple[str, int] | None:
    """The segment that made a chunk, and where it began then; ``None`` for other names."""
    match = _CHUNK.fullmatch(name)
    return None if match is None else (match[1], int(match[2]))


def chained_names(keys: Iterable[str], naming: Naming) -> frozenset[str]:
    """Segments without header that are chains of files, as HDFS had them before 0.3.

    A name does not tell whether an offset is a part of it, or belongs to the segment. So a chain is
    what has a file that begins at 0.
    """
    if naming is Naming.FILES:
        return frozenset()
    links = (match for key in keys if (match := _LINK.fullmatch(key)) is not None)
    return frozenset(link[1] for link in links if not int(link[2]) and link[1] != _BOOKS)


def is_chained(segment: str, key: str) -> bool:
    """Whether the header of a segment, or a file of one without header, is a link of a chain."""
    link = _LINK.fullmatch(key)
    return link is not None and link[1] in (segment, header_of(segment))


def read_name(key: str, naming: Naming, chained: Collection[str] = ()) -> LegacyName | None:
    """Take a file's name apart; ``None`` for one that the binding cannot have written.

    Args:
        key: of the file.
        naming: the binding's.
        chained: segments without header that are chains of files.
    """
    if naming is Naming.FILES:
        return LegacyName(name=key)
    link = _LINK.fullmatch(key)
    if link is not None and (link[1] in chained or _ROLLED.fullmatch(link[1])):
        return LegacyName(name=link[1], epoch=int(link[3]), offset=int(link[2]))
    match = _SUFFIX.fullmatch(key)
    if match is None:
        return None
    if match[2] == "sealed":
        return LegacyName(name=match[1], sealed=True)
    return LegacyName(name=match[1], sealed=False, epoch=int(match[2]))


def suffix_of(key: str, naming: Naming) -> str:
    """What the binding that wrote a file of this layout put after its name."""
    if naming is Naming.FILES:
        return ""
    known = read_name(key, naming)
    assert known is not None, "it was found under this name"
    return key.removeprefix(known.name)


def naming_of(keys: Collection[str], where: str, known: Collection[str] = ()) -> Naming:
    """Tell which binding wrote these files.

    Args:
        keys: all of them.
        where: their folder, for messages.
        known: segments that came from there; they tell where no header or chunk is left.

    Raises:
        NoLegacyLayoutError: no file is of a legacy layout.
        LegacyLayoutError: files of several layouts are mixed, or all are of another one.
    """
    seen: dict[str, str] = {}
    for key in keys:
        if is_simplified(key):
            seen.setdefault("simplified", key)
        elif _ON_HDFS.fullmatch(key):
            seen.setdefault(Naming.HDFS, key)
        elif _ON_FILES.fullmatch(key):
            seen.setdefault(Naming.FILES, key)
    if len(seen) > 1:
        raise LegacyLayoutError(
            "files of several layouts are mixed", where=where, files=sorted(seen.values())
        )
    if "simplified" in seen:
        raise LegacyLayoutError(SIMPLIFIED, where=where, found=seen["simplified"])
    naming = Naming(next(iter(seen))) if seen else _naming_by_names(keys, known)
    naming = naming or _naming_by_states(keys)
    if naming is None:
        raise NoLegacyLayoutError("not a legacy layout: no file is a header or chunk", where=where)
    return naming


def _naming_by_names(keys: Iterable[str], known: Collection[str]) -> Naming | None:
    """The binding by whose rules most files are such segments; ``None`` when none is."""
    found: Counter[Naming] = Counter()
    for key in keys:
        for naming in Naming:
            name = read_name(key, naming)
            found[naming] += name is not None and name.name in known
    for naming, count in found.most_common(1):
        return naming if count else None
    return None


def _naming_by_states(keys: Collection[str]) -> Naming | None:
    """The binding of segments from before there were headers, by what was noted next to each."""
    there = set(keys)
    for key in there:
        if _STATE_ON_HDFS.fullmatch(key):
            return Naming.HDFS
        state = _STATE.fullmatch(key)
        if state is not None and state[1] in there:
            return Naming.FILES
    return None
