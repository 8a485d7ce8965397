"""Exports that are read-only, where root is nobody, or that are full.

What goes wrong: the server refuses what the mount seems to allow, some of it only when the client
brings the bytes. What must hold: the caller is told which of these it is; what was refused changed
nothing; bytes that did not fit give their room back.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.ganesha import FULL, READ_ONLY, SQUASHED
from services.kernel_nfs import KernelNfs
from tests.faults.nfs.refusals import DENIED, ROOM_BYTES, THERE

OPTIONS = "vers=4.2,hard"


def found(nfs: KernelNfs, export: str, kind: str) -> dict[str, Any]:
    mount = nfs.mount(f"refusals-{export[1:]}", OPTIONS, export)
    script = nfs.python("-m", "tests.faults.nfs.refusals", str(mount), kind)
    told: dict[str, Any] = json.loads(nfs.run(script))
    nfs.unmount(mount)
    return told


@pytest.mark.parametrize("export", [READ_ONLY, SQUASHED])
def test_what_may_not_be_changed_is_denied_and_stays(kernel_nfs: KernelNfs, export: str) -> None:
    folder = kernel_nfs.server.narrow[export] / "d"
    folder.mkdir()
    (folder / "a").write_bytes(THERE)
    # The user nobody may read them, whatever mask this process has.
    folder.chmod(0o755)
    (folder / "a").chmod(0o644)
    assert found(kernel_nfs, export, "denied") == {
        "told": dict.fromkeys(DENIED, "ChunkAccessDeniedError not applied"),
        "left": {"d/a": len(THERE)},
    }
    assert (folder / "a").read_bytes() == THERE


def test_what_does_not_fit_says_so_and_gives_its_room_back(kernel_nfs: KernelNfs) -> None:
    assert found(kernel_nfs, FULL, "full") == {
        "told": {
            "create": "ChunkStorageFullError not applied",
            "create in its room": "done",
            "write": "ChunkStorageFullError unknown",
            "delete": "done",
            "create in the room of that": "done",
        },
        "left": {"d/b": ROOM_BYTES},
    }
