"""``python -m tests.golden.make``: write the golden store of this version again.

Until a version is released its formats may still change; afterwards its golden store never does.
"""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import siltstone
from tests.golden import collection_store, keyspace_states, keyspace_store
from tests.golden.collection_store import Consensus, make_collections
from tests.golden.feature_store import content, make
from tests.golden.keyspace_store import make_keyspaces

FOLDER = Path(__file__).parent
ARCHIVE = "store.tar.xz"
WHOLE = "content.json"
WITHOUT_LOG = "content-without-tier-1.json"
COLLECTIONS: dict[Consensus, str] = {
    "objects": "collections-in-objects",
    "table": "collections-in-a-table",
}
"""Folders of stores with collections, by what orders their changes."""
KEYSPACES = "keyspaces"
"""Folder of a store with keyspaces."""
STATES = "keyspace-states"
"""Folder of a store with keyspaces that have each kind of row, and stopped half-way."""
ROWS = "rows.json"


def main() -> None:
    """Make the store, and keep it with what it must show for ever."""
    place = FOLDER / siltstone.__version__
    place.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        make(store)
        (place / ARCHIVE).write_bytes(lzma.compress(_packed(store), preset=9))
        with siltstone.open(store, read_only=True) as opened:
            _keep(place / WHOLE, content(opened))
        with siltstone.open(store, recover="read-only") as opened:
            _keep(place / WITHOUT_LOG, content(opened))
    for consensus, name in COLLECTIONS.items():
        _keep_collections(consensus, place / name)
    keep_keyspaces(place / KEYSPACES)
    keep_states(place / STATES)


def _keep_collections(consensus: Consensus, place: Path) -> None:
    place.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        make_collections(store, consensus)
        (place / ARCHIVE).write_bytes(lzma.compress(_packed(store), preset=9))
        with collection_store.opened(store, consensus) as opened:
            _keep(place / WHOLE, collection_store.content(opened))


def keep_keyspaces(place: Path) -> None:
    """Make the store with keyspaces, and keep it in a folder."""
    place.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        make_keyspaces(store)
        (place / ARCHIVE).write_bytes(lzma.compress(_packed(store), preset=9))
        with siltstone.open(store, read_only=True) as opened:
            _keep(place / WHOLE, keyspace_store.content(opened))


def keep_states(place: Path) -> None:
    """Make the store of keyspaces that stopped half-way, and keep it in a folder."""
    place.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        keyspace_states.make_states(store)
        (place / ARCHIVE).write_bytes(lzma.compress(_packed(store), preset=9))
        with siltstone.open(store, read_only=True) as opened:
            _keep(place / ROWS, keyspace_states.rows_of(opened))
            _keep(place / WHOLE, keyspace_states.content_of_all(opened))


def _packed(store: Path) -> bytes:
    """The files of a store but for its local index, which is a cache, in an order of their own."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(store.rglob("*")):
            name = path.relative_to(store)
            if path.is_file() and name.parts[0] != "index":
                info = tarfile.TarInfo(str(name))
                info.size = path.stat().st_size
                info.mode = path.stat().st_mode & 0o777
                with path.open("rb") as file:
                    archive.addfile(info, file)
    return packed.getvalue()


def _keep(path: Path, value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
