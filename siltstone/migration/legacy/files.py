"""The files of a legacy layout under the names that headers know: suffixes and leftovers resolved.

On HDFS a zombie may leave a file of an older epoch beside that of a newer one; a newer epoch
counts, and a sealed file before all. A file that was being replaced stands under another name until
it is whole: it counts where the one that it replaces is gone, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from siltstone.migration.legacy.findings import Note, Oddity
from siltstone.migration.legacy.names import REPLACING, Naming, read_name
from siltstone.migration.legacy.places import PlacedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFile:
    """A file, under the name that headers know.

    Attributes:
        name: without what the binding put behind it.
        key: of the file itself.
        length: bytes.
        sealed: whether nobody may write to it; ``None`` where nothing tells.
        version: see ``PlacedFile``.
        notes: oddities that led to it.
        rivals: keys of other files of this name that hold bytes too.
        empty_rivals: keys of other files of this name that hold none.
    """

    name: str
    key: str
    length: int
    sealed: bool | None
    version: str
    notes: tuple[Note, ...] = ()
    rivals: tuple[str, ...] = ()
    empty_rivals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFiles:
    """All files of a place.

    Attributes:
        by_name: those that count.
        ignored: keys of unfinished replacements.
        strays: keys that the binding can not have written.
    """

    by_name: dict[str, LegacyFile]
    ignored: dict[str, str]
    strays: tuple[str, ...]


def resolve(found: Iterable[PlacedFile], naming: Naming) -> LegacyFiles:
    """Give each file the name that headers know."""
    groups: dict[str, list[tuple[int, PlacedFile, bool | None]]] = {}
    strays: list[str] = []
    for file in found:
        if file.is_link:
            continue
        known = read_name(file.key, naming) if _is_text(file.key) else None
        if known is None:
            strays.append(file.key)
            continue
        rank = 2**63 if known.sealed else (known.epoch or 0)
        sealed = file.sealed if known.sealed is None else known.sealed
        groups.setdefault(known.name, []).append((rank, file, sealed))
    by_name = {name: _newest(name, group) for name, group in groups.items()}
    ignored: dict[str, str] = {}
    for name in [name for name in by_name if name.endswith(REPLACING)]:
        unfinished = by_name.pop(name)
        target = name.removesuffix(REPLACING)
        if target in by_name or not target:
            ignored[target] = unfinished.key
            continue
        note = Note(oddity=Oddity.REPLACING, text=f"{unfinished.key} stands for {target}")
        by_name[target] = replace(unfinished, name=target, notes=(*unfinished.notes, note))
    return LegacyFiles(by_name=by_name, ignored=ignored, strays=tuple(sorted(strays)))


def _newest(name: str, group: list[tuple[int, PlacedFile, bool | None]]) -> LegacyFile:
    group.sort(key=lambda one: one[0])
    _, newest, sealed = group[-1]
    older = [file for _, file, _ in group[:-1]]
    notes = tuple(
        Note(oddity=Oddity.OLDER_EPOCH, text=f"{file.key} is older than {newest.key}")
        for file in older
    )
    return LegacyFile(
        name=name,
        key=newest.key,
        length=newest.length,
        sealed=sealed,
        version=newest.version,
        notes=notes,
        rivals=tuple(file.key for file in older if file.length),
        empty_rivals=tuple(file.key for file in older if not file.length),
    )


def _is_text(key: str) -> bool:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
