"""Every verb that changes a chunk, on an export that refuses changes or has no room.

The guest runs it: FOLDER denied|full. It writes what each caller learns, and what it finds then.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.errors import ChunkError

THERE = b"first"
MORE = b"second"
LARGE_BYTES = 2**24
ROOM_BYTES = 2**22

Verbs = Mapping[str, Callable[[NfsChunkStorage], object]]
DENIED: Verbs = {
    "create": lambda storage: storage.create("d/new", [MORE]),
    "create below a new folder": lambda storage: storage.create("e/new", [MORE]),
    "write": lambda storage: storage.write("d/a", len(THERE), [MORE]),
    "seal": lambda storage: storage.seal("d/a"),
    "delete": lambda storage: storage.delete("d/a"),
}
TOO_MUCH: Verbs = {
    "create": lambda storage: storage.create("d/large", [bytes(LARGE_BYTES)]),
    "create in its room": lambda storage: storage.create("d/a", [bytes(ROOM_BYTES)]),
    "write": lambda storage: storage.write("d/a", ROOM_BYTES, [bytes(LARGE_BYTES)]),
    "delete": lambda storage: storage.delete("d/a"),
    "create in the room of that": lambda storage: storage.create("d/b", [bytes(ROOM_BYTES)]),
}


def learned(storage: NfsChunkStorage, verbs: Verbs) -> dict[str, str]:
    found = {}
    for verb, call in verbs.items():
        try:
            call(storage)
            found[verb] = "done"
        except ChunkError as error:
            found[verb] = f"{type(error).__name__} {error.outcome.value}"
    return found


def main(folder: str, kind: str) -> None:
    storage = NfsChunkStorage(folder)
    told = learned(storage, DENIED if kind == "denied" else TOO_MUCH)
    left = {one.name: one.length for one in storage.list()}
    sys.stdout.write(json.dumps({"told": told, "left": left}))
    storage.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
