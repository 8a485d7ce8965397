"""Five minutes with siltstone: runs by itself in a temporary folder, and says what it does."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import siltstone
from siltstone import Append, Put, VersionIs


def main() -> None:
    """Make a store, use it, close it, and open it again."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "store"
        settings = siltstone.init(folder)
        print(f"made a store: {settings.name}, and folders for chunks, tier 1 and index")
        with siltstone.open(folder) as store:
            segments(store)
            exactly_once(store)
            tables(store)
            files(store)
        again(folder)
    print("done")


def segments(store: siltstone.Store) -> None:
    """Append, read, and see where the bytes are."""
    segment = store.create("sensors/roof")
    offset = segment.append(b"21.5\n")  # durable when this returns
    segment.append_many([b"21.6\n", b"21.7\n"])  # one commit
    print(f"appended from offset {offset} on; the segment has {segment.info().length} bytes")
    assert segment.read(5, 5) == b"21.6\n"

    segment.flush()  # happens by itself after a while
    (chunk,) = segment.chunks()
    print(f"the bytes are now a plain file: {chunk.chunk}")
    assert chunk.length == 15


def exactly_once(store: siltstone.Store) -> None:
    """Repeat an append whose answer was lost."""
    segment = store.create("orders")
    writer = segment.writer("shop-7")
    first = writer.append(b"one pair of boots\n", sequence=1)
    again = writer.append(b"one pair of boots\n", sequence=1)
    assert first == again
    assert segment.info().length == 18
    print("the same order was sent twice and is stored once")


def tables(store: siltstone.Store) -> None:
    """Change bytes and keys in one atomic step, under a condition."""
    stock = store.create_table("{shop}stock")
    sales = store.create("{shop}sales")  # the same tag: the same container, so one commit
    version = stock.put(b"boots", b"3")
    store.commit(
        [Append(sales.name, b"boots\n"), Put(stock.name, b"boots", b"2")],
        conditions=[VersionIs(stock.name, b"boots", version)],
    )
    try:
        store.commit(
            [Put(stock.name, b"boots", b"1")],
            conditions=[VersionIs(stock.name, b"boots", version)],
        )
    except siltstone.ConditionFailedError:
        print("another sale was first, so nothing was sold twice")
    left = stock.get(b"boots")
    assert left is not None
    assert left.value == b"2"


def files(store: siltstone.Store) -> None:
    """Use a segment where a file is expected."""
    segment = store.create("letters")
    with io.TextIOWrapper(segment.open("ab"), encoding="utf-8") as letters:
        letters.write("dear reader,\nthis is a file\n")
    with segment.open("rb") as file:
        lines = [line.decode().strip() for line in file]
    assert lines == ["dear reader,", "this is a file"]
    segment.seal()
    print(f"{len(lines)} lines came back from a file; the segment is sealed now")


def again(folder: Path) -> None:
    """Open the store again, read-only: another process could own it meanwhile."""
    with siltstone.open(folder, read_only=True) as store:
        names = [info.name for info in store.list()]
        assert names == ["letters", "orders", "sensors/roof", "{shop}sales"]
        assert store.segment("sensors/roof").read(0, 100) == b"21.5\n21.6\n21.7\n"
        print(f"opened again, read-only: {', '.join(names)}")


if __name__ == "__main__":
    main()
