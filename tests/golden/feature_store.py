"""A small store in which every feature left something: made the same way by every version.

Its bytes differ from run to run, for ids, times and files of RocksDB do; what it holds does not.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import siltstone
from siltstone import Append, ImportBatch, ImportMode, ImportOutput, ImportWriter, Put

CHUNK_BYTES = 64 * 1024
SETTINGS = f"""
segments:
  chunk_size: {CHUNK_BYTES}
flush:
  age: 1h
  table_age: 1h
optimiser:
  enabled: false
relocation:
  enabled: false
garbage:
  delay: 1h
"""
NAMES = ("x/ž %&=~", "one/two/three/four/five/six/seven/eight", "long-" + "n" * 150)
"""Names that chunk names escape, or shorten so that they cannot be read back."""


def text(name: str, length: int) -> bytes:
    """Bytes that are those of one segment, and that compress well."""
    line = f"{name}: all that was appended here is this line, again and again\n".encode()
    return (line * (length // len(line) + 1))[:length]


def make(folder: Path) -> None:
    """Make the store in ``folder``; its log keeps what was appended last."""
    settings = siltstone.init(folder)
    written = settings.read_text(encoding="utf-8")
    written = written.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 1MiB")
    settings.write_text(written + SETTINGS, encoding="utf-8")
    with siltstone.open(folder) as store:
        _fill(folder, store)
        store.flush()
        store.checkpoint()
        _fill_more(store)
        store.flush()
    with siltstone.open(folder) as store:
        store.create("second owner").append(text("second owner", 300))
        store.segment("chunks").append(b"behind the checkpoint")
        store.flush()
        store.segment("tail").append(text("tail", 400))
        store.create("only in tier 1").append(b"never flushed")
        store.table("t").put(b"late", b"only in tier 1")


def _fill(folder: Path, store: siltstone.Store) -> None:
    for number in range(20):
        store.create(f"small/{number:02}").append(text(f"small {number}", 50 + number))
    many = store.create("chunks", attributes={"kind": "of many chunks"})
    many.append(text("chunks", 3 * CHUNK_BYTES + 7))
    store.create("cut").append(text("cut", 2 * CHUNK_BYTES))
    store.create("sealed").append(text("sealed", 500))
    store.segment("sealed").seal()
    store.create("target").append(text("target", 100))
    source = store.create("source")
    for part in (2**19, 2**19 + 5):  # larger than what a concat appends as bytes
        source.append(text("source", part))
    store.segment("source").seal()
    store.create("gone").append(text("gone", 700))
    store.create("before").append(text("before", 60))
    store.create("tail").append(text("tail", 600))
    for name in NAMES:
        store.create(name).append(text(name[:9], 90))
    writer = store.create("once").writer("w")
    writer.append(b"exactly ", sequence=1)
    writer.append(b"once", sequence=2)
    table = store.create_table("t")
    for number in range(30):
        table.put(b"key %d" % number, b"value %d" % number)
    ticket = store.open_import("job", "brought")
    with ImportWriter(folder, ticket, partition=0, attempt=0, chunk_bytes=400) as brought:
        brought.write(text("brought", 1_000))
        chunks = brought.finish()
    output = ImportOutput(segment="brought", chunks=chunks, mode=ImportMode.CREATE)
    store.commit_import(ticket, [output], batch=ImportBatch(query="q", number=3))
    store.set_retention("small/", prefix=True, bytes_max=10**6)
    store.create("empty")


def _fill_more(store: siltstone.Store) -> None:
    store.segment("cut").truncate(CHUNK_BYTES + 9)
    store.segment("target").concat("source")
    store.segment("gone").delete()
    store.segment("before").rename("renamed")
    store.segment("chunks").set_attributes({"more": "attributes"})
    table = store.table("t")
    table.remove(b"key 3")
    table.remove_range(b"key 20", b"key 25")
    store.create_table("empty table")
    store.commit([Append("small/00", b" and a commit"), Put("t", b"with", b"an append")])
    store.publish_files(["sealed"])


def content(store: siltstone.Store) -> dict[str, Any]:
    """What the store holds, as JSON can say it: times and ids are left out."""
    segments: dict[str, Any] = {}
    for info in store.list():
        data = store.segment(info.name).read(info.start_offset, info.length)
        segments[info.name] = {
            "start": info.start_offset,
            "length": info.length,
            "sealed": info.sealed,
            "attributes": dict(sorted(info.attributes.items())),
            "retained_bytes": None if info.retention is None else info.retention.bytes_max,
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    tables = {
        name: {key.decode(): value.value.decode() for key, value in store.table(name).scan()}
        for name in store.list_tables()
    }
    return {"segments": segments, "tables": tables}
