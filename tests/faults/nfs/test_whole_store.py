"""A whole store on an NFS mount whose server is killed in the middle of flushes, and comes back.

What may fail: every call to the mount, at any moment; on a hard mount it hangs instead, past every
deadline, and may have its effect much later. What must hold: appends continue, for they need the
log only; nothing that was acknowledged is lost, neither with the log nor, after the last flush,
without it; and every byte lies in the exported folder where the store says.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from services.kernel_nfs import KernelNfs
from services.nfs_guest import Call
from tests.support.faults.whole_life import SEGMENTS
from tests.support.soak import share_of

DEATHS = 2
FILES_OF_A_FLUSH = 9
"""About as many; each death comes after another one of them."""
DEAD_S = 4.0
"""On a hard mount: longer than a call of the store may take."""


@pytest.mark.slow
def test_a_server_that_is_killed_in_the_middle_of_flushes(kernel_nfs: KernelNfs) -> None:
    play(kernel_nfs, "whole-hard", "hard", DEATHS)


@pytest.mark.soak
@pytest.mark.parametrize("options", ["hard", "soft,timeo=10,retrans=1"])
def test_a_server_that_is_killed_again_and_again(kernel_nfs: KernelNfs, options: str) -> None:
    play(kernel_nfs, f"again-{options[:4]}", options, share_of(30))


def play(nfs: KernelNfs, name: str, options: str, deaths: int) -> None:
    mount = nfs.mount(name, f"vers=4.2,nosharecache,{options}")
    lying, gate = nfs.server.data / name, nfs.shared / name
    gate.mkdir()
    store = nfs.folder / "tmp" / name
    script = nfs.python("-m", "tests.faults.nfs.whole_store")
    life = nfs.begin([*script, str(store), str(mount / name), str(gate), str(deaths)])
    for number in range(deaths):
        wait_for(life, gate / f"flushing-{number}")
        die_after(nfs, lying, 1 + number % FILES_OF_A_FLUSH)
        (gate / f"dead-{number}").touch()
        time.sleep(DEAD_S if number == 0 else 0)
        nfs.server.start()
        (gate / f"back-{number}").touch()
    life.wait()
    found = json.loads((gate / "end").read_text(encoding="utf-8"))
    assert found["met"] > 0, "no flush met a death"
    for segment in SEGMENTS:
        check_outside(lying, (gate / segment).read_bytes(), found["runs"][segment])
    nfs.unmount(mount)
    nfs.run(["rm", "-r", str(store)])  # It lies in the memory of the guest.


def wait_for(life: Call, file: Path) -> None:
    while not file.exists():
        assert not life.has_ended, life.text()
        time.sleep(0.01)


def die_after(nfs: KernelNfs, lying: Path, more: int) -> None:
    """Kill the server when a flush has made some files, or has ended."""
    before = count(lying)
    until = time.monotonic() + 2
    while count(lying) < before + more and time.monotonic() < until:
        time.sleep(0)
    nfs.server.kill()


def count(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*.chunk"))


def check_outside(lying: Path, content: bytes, runs: list[tuple[int, int, str, int]]) -> None:
    end = 0
    for start, length, chunk, chunk_offset in runs:
        assert start == end
        end += length
        data = (lying / chunk).read_bytes()[chunk_offset : chunk_offset + length]
        assert data == content[start:end], chunk
    assert end == len(content)
