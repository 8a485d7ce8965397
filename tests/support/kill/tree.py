"""The files of a container at one moment, to see afterwards who changed what."""

from __future__ import annotations

import re
from collections.abc import Collection

from tests.support.faults.place import Place

Tree = dict[str, bytes]

_EPOCH = re.compile(r"/e([0-9]+)(?:[-/])")


def tree_of(place: Place) -> Tree:
    """Every file of the log and of long-term storage, with its content."""
    found = {}
    for folder in (place.log_folder, place.chunk_folder):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                found[str(path.relative_to(place.folder))] = path.read_bytes()
    return found


def epoch_in(name: str) -> int | None:
    """The epoch that a file's name tells; ``None`` for a file of all epochs."""
    match = _EPOCH.search(name)
    return None if match is None else int(match[1])


def check_zombies_harmless(before: Tree, after: Tree, zombies: Collection[int]) -> None:
    """Check that owners of the epochs ``zombies`` touched nothing but files of their own.

    A deletion that the log stated before its owner was fenced may come late: what it removes is of
    that epoch or of an older one, and it is not needed, which a look at the container shows.
    """
    newest = max(zombies)
    for name, content in before.items():
        epoch = epoch_in(name)
        if name not in after:
            assert epoch is not None, f"{name} is gone"
            assert epoch <= newest, f"a zombie of {zombies} removed {name}"
        elif epoch not in zombies:
            assert after[name] == content, f"a zombie of {zombies} changed {name}"
    for name in after.keys() - before.keys():
        assert epoch_in(name) in zombies, f"a zombie of {zombies} made {name}"
