"""Counts what each verb asks the server, by the statistics of the client.

The guest runs it: MOUNT. It writes the requests of each verb as JSON.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage

CHUNKS = 20
OPERATION = re.compile(r"^\s+([A-Z_]+): (\d+) ", re.MULTILINE)


def asked(mount: Path) -> Counter[str]:
    """The requests so far, by their names in the protocol."""
    devices = Path("/proc/self/mountstats").read_text(encoding="ascii").split("device ")
    (own,) = [text for text in devices if f" mounted on {mount} " in text]
    return Counter({name: int(count) for name, count in OPERATION.findall(own)})


def main(mount: Path) -> dict[str, dict[str, int]]:
    storage = NfsChunkStorage(mount / "requests")
    for number in range(CHUNKS):
        storage.create(f"d/{number}", [b"abc"])
    verbs: dict[str, Callable[[], object]] = {
        "create": lambda: storage.create("d/a", [b"abc"]),
        "write": lambda: storage.write("d/a", 3, [b"def"]),
        "stat": lambda: storage.stat("d/a"),
        "read_into": lambda: storage.read_into("d/0", 0, bytearray(3)),
        "seal": lambda: storage.seal("d/a"),
        "delete": lambda: storage.delete("d/a"),
        "list": lambda: sum(1 for _ in storage.list()),
    }
    found = {}
    for name, call in verbs.items():
        before = asked(mount)
        call()
        found[name] = dict(asked(mount) - before)
    return found


if __name__ == "__main__":
    json.dump(main(Path(sys.argv[1])), sys.stdout)
