"""Each change of a chunk on an NFS mount, and each way in which the server is not heard.

All changes are made at once, each held before the call that has its effect. Then the server dies or
is not heard any more, and they continue. What must hold: what is reported as done has had its
effect; what is reported as not applied has not; all else is unknown; nothing is synced twice. The
test looks at the exported folder itself, and later the client that had the trouble sees the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from services.kernel_nfs import KernelNfs
from tests.faults.nfs.calls import BEFORE, MORE, VERBS, chunk_of

HARD = "hard"
SOFT = "soft,timeo=10,retrans=1"
PATIENCE_S = 60.0
CALLS = "tests.faults.nfs.calls"
DONE = dict.fromkeys(VERBS, ("done", ""))
UNKNOWN = dict.fromkeys(VERBS, ("unknown", "ChunkUnavailableError"))


@dataclass(frozen=True)
class Case:
    """What goes wrong, and what must be told then.

    Attributes:
        options: of the mount.
        heard: whether the server hears of the changes; if so, its answers are lost.
        dies: whether it dies then.
        returns: whether it comes back before the verbs have ended.
        told: outcome and error for each verb.
        effect: whether the changes are made in the end.
    """

    options: str
    heard: bool
    dies: bool
    returns: bool
    told: Mapping[str, tuple[str, str]]
    effect: bool


CASES = {
    "hard, the answer comes late": Case(HARD, True, False, True, DONE, True),
    "hard, the server was dead": Case(HARD, False, True, True, DONE, True),
    # Asked again, the new server cannot know that it was this client's own removal.
    "hard, the server dies with its answers": Case(
        HARD, True, True, True, DONE | {"delete": ("unknown", "ChunkNotFoundError")}, True
    ),
    "soft, the server is dead": Case(SOFT, False, True, False, UNKNOWN, False),
    "soft, the server dies with its answers": Case(SOFT, True, True, False, UNKNOWN, True),
}
PATIENT = {"hard, the server was dead", "soft, the server is dead"}
"""They take long, and the cases after them are the harder ones."""


class Place:
    """A mount with chunks, and the same folder on the server's side."""

    def __init__(self, nfs: KernelNfs, name: str, options: str) -> None:
        self.nfs = nfs
        self.mount = nfs.mount(name, f"vers=4.2,nosharecache,{options}")
        self.lying = nfs.server.data / name
        self.gate = nfs.shared / name
        self.gate.mkdir()

    def command(self, what: str) -> list[str]:
        arguments = [CALLS, what, str(self.mount / self.lying.name), str(self.gate)]
        return self.nfs.python("-m", *arguments)

    def ask(self, what: str) -> Any:
        self.nfs.run(self.command(what))
        return json.loads((self.gate / f"{what}.json").read_text(encoding="utf-8"))

    def effects(self) -> dict[str, bool]:
        chunks = {verb: self.lying / chunk_of(verb) for verb in VERBS}
        return {
            "create": chunks["create"].exists(),
            "write": chunks["write"].stat().st_size > len(BEFORE),
            "delete": not chunks["delete"].exists(),
            "seal": not chunks["seal"].stat().st_mode & 0o222,
        }

    def content(self) -> dict[str, str]:
        files = [path for path in self.lying.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.lying)): path.read_text("latin-1") for path in files}


@pytest.fixture
def nfs(kernel_nfs: KernelNfs) -> Iterator[KernelNfs]:
    yield kernel_nfs
    # A test that failed in between left it as it was.
    kernel_nfs.mute(silent=False)
    if not kernel_nfs.server.is_running:
        kernel_nfs.server.start()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


def cases() -> Iterator[Any]:
    for name in CASES:
        yield pytest.param(name, id=name, marks=[pytest.mark.soak] * (name in PATIENT))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*cases()])
def test_what_is_told_and_what_is_there(nfs: KernelNfs, name: str) -> None:
    case = CASES[name]
    place = Place(nfs, name.replace(", ", "-").replace(" ", "-"), case.options)
    place.ask("prepare")
    run = nfs.begin(place.command("run"))
    until(lambda: run.has_ended or len([*place.gate.glob("*.held")]) == len(VERBS))
    assert not run.has_ended, run.text()

    if case.heard:
        nfs.mute(silent=True)
    else:
        nfs.server.kill()
    (place.gate / "open").touch()
    if case.heard:
        until(lambda: all(place.effects().values()))
        assert not run.has_ended
    if case.heard and case.dies:
        nfs.server.kill()
        # The kernel of a dead server still sends what the server had said.
        until(lambda: not nfs.has_connections())
    nfs.mute(silent=False)
    if case.dies and case.returns:
        nfs.server.start()
    run.wait()
    told = json.loads((place.gate / "run.json").read_text(encoding="utf-8"))
    assert {verb: (one["outcome"], one["error"]) for verb, one in told.items()} == case.told
    assert max(one["syncs"] for one in told.values()) <= 1
    assert place.effects() == dict.fromkeys(VERBS, case.effect)

    if not nfs.server.is_running:
        nfs.server.start()
    seen = place.ask("look")
    assert seen == place.content()
    if case.effect:
        assert seen[chunk_of("write")] == (BEFORE + MORE).decode()
        assert place.effects() == dict.fromkeys(VERBS, True)
    nfs.unmount(place.mount)
