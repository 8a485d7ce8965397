"""The files of a legacy layout under the names that headers know: suffixes and leftovers resolved.

On HDFS a zombie may leave a file of an older epoch next to that of a newer one; the newer epoch
counts, and a sealed file counts before all others. Before 0.3 a newer epoch began a file of its own
after those of older ones, and all of them together have the name. A file that was being replaced
stands under another name until it is whole: it counts where the one that it replaces is gone, and
nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from siltstone.migration.legacy.findings import Note, Oddity
from siltstone.migration.legacy.names import REPLACING, Naming, chained_names, read_name
from siltstone.migration.source.places import PlacedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFile:
    """A file, under the name that headers know, or several that follow one another.

    Attributes:
        name: without what the binding put after it.
        parts: the files, at least one.
        sealed: whether no process may write to it; ``None`` where nothing tells.
        gap: why its files do not follow one another; empty when they do.
        notes: oddities that led to it.
        rivals: keys of other files of this name that hold bytes too.
        empty_rivals: keys of other files of this name that hold none.
    """

    name: str
    parts: tuple[PlacedFile, ...]
    sealed: bool | None
    gap: str = ""
    notes: tuple[Note, ...] = ()
    rivals: tuple[str, ...] = ()
    empty_rivals: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Key of the file itself; of several, of the one that was written to last."""
        return self.parts[-1].key

    @property
    def length(self) -> int:
        """Bytes."""
        return sum(part.length for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFiles:
    """All files of a place.

    Attributes:
        by_name: those that count.
        ignored: keys of unfinished replacements.
        strays: keys that the binding cannot have written.
    """

    by_name: dict[str, LegacyFile]
    ignored: dict[str, str]
    strays: tuple[str, ...]


def resolve(found: Iterable[PlacedFile], naming: Naming) -> LegacyFiles:
    """Give each file the name that headers know."""
    files = [file for file in found if not file.is_link]
    chained = chained_names((file.key for file in files), naming)
    groups: dict[str, list[tuple[int, LegacyFile]]] = {}
    chains: dict[str, list[tuple[int, int, PlacedFile]]] = {}
    strays: list[str] = []
    for file in files:
        known = read_name(file.key, naming, chained) if _is_text(file.key) else None
        if known is None:
            strays.append(file.key)
            continue
        if known.offset is not None:
            chains.setdefault(known.name, []).append((known.offset, known.epoch or 0, file))
            continue
        rank = 2**63 if known.sealed else (known.epoch or 0)
        sealed = file.sealed if known.sealed is None else known.sealed
        made = LegacyFile(name=known.name, parts=(file,), sealed=sealed)
        groups.setdefault(known.name, []).append((rank, made))
    for name, links in chains.items():
        groups.setdefault(name, []).append(_chain(name, links))
    by_name = {name: _newest(group) for name, group in groups.items()}
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


def _chain(name: str, links: list[tuple[int, int, PlacedFile]]) -> tuple[int, LegacyFile]:
    """Put the files of a name one after the other, and give them the epoch of the last one.

    That one tells whether it is sealed.
    """
    links.sort(key=lambda link: link[:2])
    end, gap = 0, ""
    for offset, _, file in links:
        if offset != end and not gap:
            gap = f"{file.key} begins at {offset}, and what is before it of {name} ends at {end}"
        end += file.length
    _, epoch, last = links[-1]
    parts = tuple(file for *_, file in links)
    return epoch, LegacyFile(name=name, parts=parts, sealed=last.sealed, gap=gap)


def _newest(group: list[tuple[int, LegacyFile]]) -> LegacyFile:
    """That of the highest rank, which knows of the others."""
    group.sort(key=lambda one: one[0])
    *older, newest = (file for _, file in group)
    notes = tuple(
        Note(oddity=Oddity.OLDER_EPOCH, text=f"{part.key} is older than {newest.key}")
        for one in older
        for part in one.parts
    )
    return replace(
        newest,
        notes=notes,
        rivals=tuple(part.key for one in older if one.length for part in one.parts),
        empty_rivals=tuple(part.key for one in older if not one.length for part in one.parts),
    )


def _is_text(key: str) -> bool:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
