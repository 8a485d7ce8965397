"""Makes a store with keyspaces in every state, and says what it must show for ever."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import siltstone
from siltstone import objects
from siltstone.objects.records.footer import (
    TRAILER_BYTES,
    decode_directory,
    decode_piece,
    decode_trailer,
)
from siltstone.objects.records.keys import (
    EXPIRY,
    HEAD,
    INDEX,
    MANIFEST,
    decode_expiry_key,
    decode_head_key,
    decode_index_key,
    first_sqn_of,
)
from siltstone.objects.records.space_rows import (
    ManifestRow,
    ValueStatus,
    decode_index_entry,
    decode_manifest_row,
)
from siltstone.objects.space_names import SpaceNames
from siltstone.objects.value_segments import RollLimits

TTL_S_MAX: Final = 2**31
WAIT_S: Final = 30
MADE_S: Final = 1_700_000_000
"""When it is made, whenever that is: so what has expired has done so by every clock."""


def make_keyspaces(folder: Path) -> None:
    """Make a store whose keyspaces have all that a keyspace can have.

    The owner is described without the machine on which it ran.
    """
    with made_at(RollLimits(records=8)):
        siltstone.init(folder, containers=1)
        with siltstone.open(folder) as store:
            objects.create(store, "empty", tags={"é": "retain"})
            _make_photos(store)
            store.flush()
            store.checkpoint()
            objects.open(store, "photos").put("2027", "in-tier-1.jpg", b"not flushed")


@contextmanager
def made_at(limits: RollLimits) -> Iterator[None]:
    """Let stores that are opened be those of ``MADE_S`` and later, with small value segments."""
    behind_s = time.time() - MADE_S
    real = time.time
    with (
        patch("siltstone.core.environment.time.time", lambda: real() - behind_s),
        patch("siltstone.store.store_assembly.owner_text", lambda _: "pid=1 host=golden"),
        patch("siltstone.objects.open_spaces.RollLimits", lambda **_: limits),
    ):
        yield


def _make_photos(store: siltstone.Store) -> None:
    photos = objects.create(store, "photos", tags={"o": "recovr", "kept": "retain"})
    photos.put("2026", "short.jpg", b"expires", ttl_s=1, index={"city": ["lyon"]})
    photos.put("2026", "long.jpg", b"expires late", ttl_s=TTL_S_MAX, index={"city": ["oslo"]})
    photos.put("2026", "a.jpg", b"first", metadata=b"{}", index={"city": ["oslo", "rome"]})
    photos.put("2026", "a.jpg", b"second" * 999, specs=[("remove", "city", "oslo")])
    photos.put("2026", "b.jpg", b"", index={"city": ["oslo", ""], "\udcff": ["\0"]})
    photos.put("2026", "b.jpg", b"of the other tag", tag="kept", value_hash=b"12345678")
    photos.put("2026", "gone.jpg", b"deleted", index={"city": ["kyiv"]})
    photos.delete("2026", "gone.jpg")
    photos.put(b"\0\xff", b"a\0b", bytes(range(256)), metadata=b"of a strange name")
    photos.put("2026", "gone-and-back.jpg", b"deleted")
    photos.delete("2026", "gone-and-back.jpg")
    photos.put("2026", "gone-and-back.jpg", b"back", expected=None)
    wait_until(lambda: photos.head("2026", "short.jpg") is None)
    first, *_ = _manifest(store, SpaceNames("photos"))
    assert first.first_sqn == 1
    wait_until(lambda: _manifest(store, SpaceNames("photos"))[0].status is ValueStatus.SEALED)


def wait_until(done: Callable[[], bool]) -> None:
    """Wait for what happens by itself."""
    end = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


def content(store: siltstone.Store) -> dict[str, Any]:
    """What all keyspaces show, as JSON has it; and all rows and footers that they consist of."""
    return {name: _content(store, name) for name in objects.names(store)}


def _content(store: siltstone.Store, name: str) -> dict[str, Any]:
    keyspace, names = objects.open(store, name), SpaceNames(name)
    keys = [decode_head_key(key) for key, _ in _rows(store, names, HEAD)]
    return {
        "tags": dict(keyspace.tags),
        "objects": [shown_object(keyspace, key.bucket, key.key, key.tag.decode()) for key in keys],
        "index": [
            [_text(entry), _text(key), decode_index_entry(value, where=name)]
            for (entry, key), value in (
                (decode_index_key(key), value) for key, value in _rows(store, names, INDEX)
            )
        ],
        "expiries": [
            [expires_s, _text(key)]
            for expires_s, key in (decode_expiry_key(key) for key, _ in _rows(store, names, EXPIRY))
        ],
        "manifest": [
            [row.number, row.status.name, row.first_sqn, row.last_sqn, row.length, row.records]
            for row in _manifest(store, names)
        ],
        "footers": {
            str(row.number): list(_footer(store, names.value_segment(row.number), row))
            for row in _manifest(store, names)
            if row.status is ValueStatus.SEALED
        },
    }


def shown_object(keyspace: objects.Keyspace, bucket: bytes, key: bytes, tag: str) -> dict[str, Any]:
    """What an object shows, as JSON has it."""
    found = keyspace.get(bucket, key, tag=tag)
    name = _text((tag.encode(), bucket, key))
    if found is None:
        return {"name": name, "visible": False}
    head = found.head
    assert keyspace.head(bucket, key, tag=tag) == head
    return {
        "name": name,
        "visible": True,
        "sqn": head.sqn,
        "size": head.size,
        "metadata": head.metadata.hex(),
        "index": {
            ascii(field): [ascii(term) for term in terms] for field, terms in head.index.items()
        },
        "modified": head.modified,
        "expires": head.expires,
        "value_hash": head.value_hash.hex(),
        "sha256": hashlib.sha256(found.value).hexdigest(),
    }


def _text(parts: tuple[bytes, ...]) -> str:
    return " ".join(part.hex() for part in parts)


def _rows(store: siltstone.Store, names: SpaceNames, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
    for key, found in store.table(names.ledger).scan(kind, bytes((kind[0] + 1,))):
        yield key, found.value


def _manifest(store: siltstone.Store, names: SpaceNames) -> list[ManifestRow]:
    return [
        decode_manifest_row(first_sqn_of(key), value, where=names.ledger)
        for key, value in _rows(store, names, MANIFEST)
    ]


def _footer(store: siltstone.Store, segment: str, row: ManifestRow) -> Iterator[list[Any]]:
    """The headers that a footer has, each with the place of its record."""
    data = store.segment(segment).read(0, row.footer_end)
    trailer = decode_trailer(data[-TRAILER_BYTES:], where=segment)
    assert (trailer.first_sqn, trailer.last_sqn) == (row.first_sqn, row.last_sqn)
    assert store.segment(segment).info().sealed
    begin = trailer.directory
    for piece in decode_directory(data[begin : begin + trailer.length], where=segment):
        for place, _, header in decode_piece(piece, data[piece.offset : piece.end], where=segment):
            yield [place, header.kind.name, header.sqn, header.previous, _text(header.key)]
