"""Makes a store whose keyspaces have each kind of row and record, and stopped half-way.

What is half done is there as a process that died leaves it: a segment without its footer, segments
and large values that are to be deleted, an upload, and rebuilds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import siltstone
from siltstone import objects
from siltstone.objects.keyspace import Keyspace
from siltstone.objects.ledger_rebuild import LedgerRebuild
from siltstone.objects.record_check import headers_of
from siltstone.objects.records.keys import MANIFEST, LargeStatus, first_sqn_of, large_key
from siltstone.objects.records.large_row import LargeRow, encode_large_row
from siltstone.objects.records.space_rows import ValueStatus, decode_manifest_row
from siltstone.objects.space_names import SpaceNames
from siltstone.objects.value_segments import RollLimits, ValueSegments
from siltstone.store.async_store import AsyncStore
from siltstone.store.store import parts_of
from siltstone.store.system_table import for_keyspaces
from tests.golden.keyspace_store import made_at, shown_object, wait_until
from tests.support.stores import chunk_path, flip

LIMITS: Final = RollLimits(records=8, value=2_000, piece=512)
SETTINGS: Final = "\nobjects:\n  compact: manual\n  waste_retention: 30d\n"
SIZE_LABEL: Final = "size"
PLACE: Final = "place"
"""Folder of the store with a backup of a keyspace."""

UPLOADING: Final = 10_000
"""Number of a large value whose upload came to no end; no other has it."""


def make_states(folder: Path) -> None:
    """Make the store. The owner is described without the machine on which it ran."""
    with made_at(LIMITS):
        settings = siltstone.init(folder, containers=1)
        with settings.open("a", encoding="utf-8") as file:
            file.write(SETTINGS)
        with siltstone.open(folder) as store:
            _make_films(store)
            with patch("siltstone.store.admin.place_turns._this_process", lambda: "unknown"):
                objects.open(store, "films").backup(folder / PLACE)
            objects.restore(store, "restored", folder / PLACE, recalc=RECALC)
            _make_heads(store)
            _make_rebuilding(store)
            places = _make_doubtful(store)
            store.flush()
            chunks = [_chunk_at(store, *place) for place in places]
        for chunk, offset in chunks:
            flip(chunk_path(folder, chunk), offset)
        with siltstone.open(folder) as store:
            report = objects.rebuild(store, "doubtful")
            assert (len(report.doubtful), report.unnamed) == (4, 4)
            _leave_undone(store, folder / PLACE)
            store.flush()
            store.checkpoint()


def _make_films(store: siltstone.Store) -> None:
    films = objects.create(store, "films", tags={"o": "recovr", "log": "retain", "calc": "recalc"})
    films.put("2026", "gone", b"too long a value for a record" * 99)
    films.put("2026", "seen", b"is deleted")
    for number in range(6):
        films.put("2026", f"kept{number}", b"%d" % number, index={"n": [f"{number}"]})
    films.delete("2026", "seen")
    films.put("2026", "short", b"expires", ttl_s=1, index={"n": ["s"]})
    for number in range(40):
        tag = ("o", "log", "calc")[number % 3]
        films.put("2026", f"often{number % 2}", b"%d" % number * 9, tag=tag, ttl_s=2**31)
    films.put("2026", "gone", b"")
    large = bytes(range(256)) * 20
    films.put("2026", "large", large, metadata=b"live", index={"n": ["l"]}, ttl_s=2**31)
    wait_until(lambda: films.head("2026", "short") is None)
    assert films.reap() == 1
    wait_until(lambda: ValueStatus.ROLLING not in statuses(store, "films"))
    store.flush()
    while films.compact().run:
        pass


def _make_heads(store: siltstone.Store) -> None:
    clocks = objects.create(store, "clocks", head_only="with_lookup")
    clocks.mput([("add", "2026", "a", "left", b"7"), ("add", "2026", "a", "", b"\0")])
    clocks.mput([("add", "2026", "b", "right", b"5")], ttl_s=2**31)
    clocks.mput([("remove", "2026", "a", "")])
    ticks = objects.create(store, "ticks", head_only="no_lookup")
    ticks.mput([("add", "2026", "a", "left", b"1"), ("remove", "2026", "none", "")])


def _make_rebuilding(store: siltstone.Store) -> None:
    for name in ("rebuilding", "indexing"):
        made = objects.create(store, name, tags={"o": "recovr", "calc": "recalc"})
        for number in range(30):
            tag = "calc" if number % 2 else "o"
            made.put("2026", f"k{number % 20:02}", b"%d" % number, tag=tag, index={"n": ["old"]})
        made.delete("2026", "k04")
        wait_until(lambda name=name: ValueStatus.ROLLING not in statuses(store, name))  # type: ignore[misc]


def _make_doubtful(store: siltstone.Store) -> list[tuple[str, int]]:
    """Return where bytes are to be damaged: segments and offsets."""
    doubtful = objects.create(store, "doubtful")
    for number in range(8):
        doubtful.put("2026", f"k{number}", b"first")
    for number in range(4):
        doubtful.put("2026", f"k{number}", b"second")
        doubtful.put("2026", f"new{number}", b"first")
    doubtful.put("2026", "last", b"is whole")
    wait_until(lambda: ValueStatus.ROLLING not in statuses(store, "doubtful"))
    row = _manifest(store, "doubtful")[1]
    segment = SpaceNames("doubtful").value_segment(row.number)
    footer = store.segment(segment).read(row.length, row.footer_end - row.length)
    first = headers_of(footer, row.length, where=segment)[0]
    return [(segment, first.offset + 20), (segment, row.length + 20)]


def _leave_undone(store: siltstone.Store, place: Path) -> None:
    """What the last process did not come to."""
    with patch("siltstone.objects.ledger_rebuild.COMMIT_COUNT", 4):
        with _dies_after(4, AsyncStore, "commit"):
            objects.rebuild(store, "rebuilding", recalc=RECALC)
        with _dies_after(6, LedgerRebuild, "_indexed"):
            objects.rebuild(store, "indexing", recalc=RECALC)
    with _dies_after(2, AsyncStore, "commit_import"):
        objects.restore(store, "restoring", place, recalc=RECALC)
    films, names = objects.open(store, "films"), SpaceNames("films")
    films.delete("2026", "large")
    films.put("2026", "large", bytes(range(255)) * 20, metadata=b"live again")
    store.table(names.ledger, force=True).put(
        large_key(LargeStatus.UPLOADING, UPLOADING), encode_large_row(LargeRow())
    )
    loop, inner = parts_of(store)
    upload = loop.run(for_keyspaces(inner).create(names.large_segment(UPLOADING))).name
    store.segment(upload, force=True).append(b"the beginning of a stream")
    with patch.object(ValueSegments, "_write_footer", _never):
        for number in range(12):
            films.put("2026", f"late{number}", b"late")
        assert statuses(store, "films")[-2:] == [ValueStatus.ROLLING, ValueStatus.ACTIVE]


class _DeathError(Exception):
    """The process is dead."""


async def _never(*_: object) -> None:
    await asyncio.Event().wait()


@contextmanager
def _dies_after(count: int, owner: type, name: str) -> Iterator[None]:
    """Let the process die in a coroutine after so many calls of it; the block ends with that."""
    call, done = getattr(owner, name), 0

    async def dies(*arguments: Any) -> Any:
        nonlocal done
        done += 1
        if done > count:
            raise _DeathError
        return await call(*arguments)

    with patch.object(owner, name, dies):
        try:
            yield
        except _DeathError:
            return
    raise AssertionError("it came to its end")


def _by_size(head: objects.ObjectHead, _: bytes | None) -> dict[str, list[str]]:
    return {SIZE_LABEL: [f"{head.size}"]}


REBUILT: Final = ("indexing", "rebuilding")
"""Keyspaces whose rebuild came to no end."""

UNDONE: Final = (*REBUILT, "restoring")
"""Those, and one whose restore from ``PLACE`` came to no end; ``restored`` is the same, whole."""

RECALC: Final = {"calc": objects.Recalc(index=_by_size)}
"""How the index of rebuilds is made, also of those that go on."""


def rows_of(store: siltstone.Store) -> dict[str, dict[str, str]]:
    """All rows of all keyspaces, also of those that do not open."""
    return {
        name: {
            key.hex(): row.value.hex() for key, row in store.table(SpaceNames(name).ledger).scan()
        }
        for name in sorted(objects.names(store))
    }


def content_of_all(store: siltstone.Store) -> dict[str, Any]:
    """What all keyspaces show, but for those that are being rebuilt."""
    names = [name for name in objects.names(store) if name not in UNDONE]
    return {name: content_of(store, name) for name in sorted(names)}


def content_of(store: siltstone.Store, name: str) -> dict[str, Any]:
    """What a keyspace shows that opens, as JSON has it."""
    keyspace = objects.open(store, name)
    if keyspace.head_only is not None:
        return {"head_only": keyspace.head_only, "heads": list(_entries(keyspace))}
    tags: Mapping[str, str] = keyspace.tags
    return {
        "tags": dict(tags),
        "objects": [
            shown_object(keyspace, head.bucket.encode(), head.key.encode(), tag)
            for tag in tags
            for head in keyspace.heads("2026", tag=tag)
        ],
        "index": {
            tag: {
                field: [list(each) for each in keyspace.index("2026", field, tag=tag)]
                for field in ("n", SIZE_LABEL)
            }
            for tag in tags
        },
        "doubtful": [asdict(each) for each in keyspace.doubtful()],
    }


def _entries(keyspace: Keyspace) -> Iterator[list[Any]]:
    for head in keyspace.heads("2026"):
        yield [head.key, head.subkey, head.sqn, head.metadata.hex(), head.expires, head.modified]


def _manifest(store: siltstone.Store, name: str) -> list[Any]:
    return [
        decode_manifest_row(first_sqn_of(key), row.value, where=name)
        for key, row in store.table(SpaceNames(name).ledger).scan(MANIFEST, b"\x04")
    ]


def statuses(store: siltstone.Store, name: str) -> list[ValueStatus]:
    """The states of the value segments of a keyspace, in order."""
    return [row.status for row in _manifest(store, name)]


def _chunk_at(store: siltstone.Store, segment: str, offset: int) -> tuple[str, int]:
    for each in store.segment(segment).chunks():
        if each.start <= offset < each.start + each.length:
            return each.chunk, each.chunk_offset + offset - each.start
    raise AssertionError("the byte is in no chunk")
