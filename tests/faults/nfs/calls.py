"""Every verb that changes a chunk, at once, each held before the call that has its effect.

The guest runs it: FOLDER GATE. The test outside opens the gate when it has broken what it wants.
``prepare`` makes the chunks; ``run`` calls the verbs and writes what each caller learns.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.errors import ChunkError
from siltstone.testing.faults.file_layer import Call, FileLayer

PATIENCE_S = 60.0
BEFORE = b"first"
MORE = b"second"
VERBS: Mapping[str, tuple[str, Callable[[NfsChunkStorage, str], None]]] = {
    "create": ("open", lambda storage, name: storage.create(name, [BEFORE])),
    "write": ("fdatasync", lambda storage, name: storage.write(name, len(BEFORE), [MORE])),
    "delete": ("unlink", lambda storage, name: storage.delete(name)),
    "seal": ("fchmod", lambda storage, name: storage.seal(name)),
}
"""Verb: the file call that has the effect, and the verb on the chunk ``verb/a``."""


def chunk_of(verb: str) -> str:
    return f"{verb}/a"


def prepare(folder: str) -> None:
    storage = NfsChunkStorage(folder)
    for verb in VERBS:
        storage.create(f"{verb}/other", [BEFORE])
        if verb != "create":
            storage.create(chunk_of(verb), [BEFORE])
    storage.close()


def run(folder: str, gate: Path) -> dict[str, dict[str, object]]:
    with ThreadPoolExecutor(len(VERBS)) as pool:
        calls = {verb: pool.submit(told, folder, gate, verb) for verb in VERBS}
        return {verb: call.result() for verb, call in calls.items()}


def told(folder: str, gate: Path, verb: str) -> dict[str, object]:
    kind, act = VERBS[verb]
    layer = FileLayer()
    storage = NfsChunkStorage(folder, calls=layer)
    storage.stat(f"{verb}/other")

    def hold(call: Call) -> None:
        if call.kind == kind and (kind == "fdatasync" or call.target in ("a", chunk_of(verb))):
            layer.before = lambda call: None
            (gate / f"{verb}.held").touch()
            while not (gate / "open").exists():
                time.sleep(0.01)

    layer.before = hold
    layer.forget()
    found: dict[str, object] = {"outcome": "done", "error": ""}
    try:
        act(storage, chunk_of(verb))
    except ChunkError as error:
        found = {"outcome": error.outcome.value, "error": type(error).__name__}
    found["syncs"] = len(layer.targets("fdatasync"))
    return found


def look(folder: str) -> dict[str, object]:
    """What the client that had the trouble sees afterwards."""
    storage = NfsChunkStorage(folder)
    until = time.monotonic() + PATIENCE_S
    while True:
        found: dict[str, object] = {}
        try:
            for chunk in storage.list():
                buffer = bytearray(chunk.length)
                storage.read_into(chunk.name, 0, buffer)
                found[chunk.name] = buffer.decode("latin-1")
        except ChunkError:
            # A soft mount gives up while its client still looks for the server.
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
        else:
            return found


if __name__ == "__main__":
    what, place, answer = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    result: object = None
    if what == "prepare":
        prepare(place)
    elif what == "run":
        result = run(place, answer)
    else:
        result = look(place)
    half = answer / f"{what}.half"
    half.write_text(json.dumps(result), encoding="utf-8")
    os.rename(half, answer / f"{what}.json")
