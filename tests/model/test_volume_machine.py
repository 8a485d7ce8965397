"""Volumes of two clients against dictionaries of pages: every verb, every fate of a call.

What must hold after each step: every reader reads what it read first; the newest snapshot of each
client has the pages of the model; status and counts are the model's; the log of the place has no
gap and never changes; what the place has is what a push said that it published, and nothing that a
push said was rejected; rows wait only for pages that the place has.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from siltstone.core.errors import ChunkError, OutcomeUnknownError
from siltstone.volumes import (
    ConcurrentWriteError,
    ConflictError,
    RejectedCommitError,
    VolumeReader,
    VolumeStatus,
)
from siltstone.volumes.object_names import PLACE, commit_name
from siltstone.volumes.place_calls import CreateRecord, PlaceCall
from tests.support.soak import share_of
from tests.support.volumes.page_model import Pages, do, seen
from tests.support.volumes.synced_world import DiedError, Fate, SyncedWorld

INDEXES = st.integers(1, 9) | st.sampled_from([63, 64, 65, 66, 130])
operations = st.lists(
    st.tuples(st.just("write"), INDEXES, st.sampled_from([0, 1, 2, 3]))
    | st.tuples(
        st.just("truncate"), st.integers(0, 9) | st.sampled_from([64, 70, 140]), st.just(0)
    ),
    max_size=6,
)
fates = st.builds(
    Fate,
    at=st.integers(0, 3),
    kind=st.sampled_from(["dies before", "dies after", "refused", "lost", "late", "never"]),
    every=st.booleans(),
)
who = st.sampled_from(["a", "b"])


@dataclass(frozen=True)
class Push:
    """A push whose record was created, or nearly.

    Attributes:
        name: of the client.
        end: last local LSN that it has.
        pages: what the volume held there.
    """

    name: str
    end: int
    pages: Pages


@dataclass
class Side:
    """What the model knows of one client.

    Attributes:
        pages: what its newest snapshot holds.
        local: LSN of it.
        remote: remote LSN that it is mapped to.
        mapped: local LSN that it is mapped to.
        versions: what it held at each local LSN after the mapping.
        pending: last local LSN of a push whose record may be there.
        status: of the volume.
    """

    pages: Pages = field(default_factory=Pages)
    local: int = 0
    remote: int = 0
    mapped: int = 0
    versions: dict[int, Pages] = field(default_factory=dict)
    pending: int | None = None
    status: VolumeStatus = VolumeStatus.OK

    def commit(self, pages: Pages) -> None:
        self.local += 1
        self.pages = self.versions[self.local] = pages

    def accept(self, pages: Pages, remote: int) -> None:
        self.local += 1
        self.pages, self.remote, self.mapped = pages, remote, self.local
        self.versions, self.status = {}, VolumeStatus.OK

    def published(self) -> None:
        assert self.pending is not None
        self.remote, self.mapped, self.pending = self.remote + 1, self.pending, None
        self.versions = {lsn: each for lsn, each in self.versions.items() if lsn > self.mapped}
        self.status = VolumeStatus.OK

    def rejected(self) -> None:
        self.pending, self.status = None, VolumeStatus.REJECTED_COMMIT


class VolumeMachine(RuleBasedStateMachine):
    """The model: what each client and each record of the log hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="siltstone-volumes-"))
        self.world = SyncedWorld(self.folder)
        self.log: list[Pages] = []
        self.records: list[bytes] = []
        self.pushes: dict[bytes, Push] = {}
        self.world.hear = self.hear
        self.sides = {"a": Side(), "b": Side()}
        self.readers: list[tuple[str, VolumeReader, Pages]] = []

    @initialize(first=operations)
    def begin(self, first: list[Any]) -> None:
        self.clients = {name: self.world.open(name) for name in self.sides}
        made = self.clients["a"].create("v")
        self.write("a", [*first, ("write", 1, 1)])
        assert self.world.run(made.push_steps())
        self.note_records("a")
        self.clients["b"].clone("v", made.log)
        self.sides["b"].accept(self.log[0], 1)

    def volume(self, name: str) -> Any:
        return self.clients[name].volume("v")

    # --- pages ------------------------------------------------------------------------------------

    @rule(name=who, several=operations)
    def write(self, name: str, several: list[Any]) -> None:
        """Commit, also nothing at all, which is no commit."""
        side = self.sides[name]
        with self.volume(name).writer() as writer:
            do(writer, several)
            expected = side.pages.written(several)
            assert seen(writer, 12) == expected
            before = writer.snapshot.local
            if writer.commit().local > before:
                side.commit(expected)
            else:
                assert expected == side.pages

    @rule(name=who, first=operations, second=operations)
    def write_at_once(self, name: str, first: list[Any], second: list[Any]) -> None:
        """Of two writers on one snapshot, the first to commit wins."""
        side = self.sides[name]
        with self.volume(name).writer() as one, self.volume(name).writer() as other:
            do(one, [*first, ("write", 2, 1)])
            do(other, [*second, ("write", 3, 2)])
            side.commit(side.pages.written([*second, ("write", 3, 2)]))
            other.commit()
            with pytest.raises(ConcurrentWriteError):
                one.commit()

    @rule(name=who)
    def read_on(self, name: str) -> None:
        """A reader that stays."""
        self.readers.append((name, self.volume(name).reader(), self.sides[name].pages))

    @precondition(lambda self: self.readers)
    @rule(number=st.integers(0, 9))
    def end_reader(self, number: int) -> None:
        _, reader, expected = self.readers.pop(number % len(self.readers))
        assert seen(reader, 12) == expected
        reader.close()

    # --- sync -------------------------------------------------------------------------------------

    @rule(name=who, commits=st.lists(operations, max_size=3), fate=st.none() | fates)
    def push(self, name: str, commits: list[Any], fate: Fate | None) -> None:
        for several in commits:
            self.write(name, several)
        self.push_or_recover(name, "push_steps", fate)

    @rule(commits=st.lists(st.tuples(who, operations), min_size=1, max_size=3), first=who)
    def push_both(self, commits: list[Any], first: str) -> None:
        """Both push, without having heard of one another: at most one of them is published."""
        for name, several in commits:
            self.write(name, [("write", 1, 1), *several])
        for name in (first, "ab".replace(first, "")):
            self.push_or_recover(name, "push_steps", None)

    @precondition(lambda self: any(side.pending for side in self.sides.values()))
    @rule(name=who, fate=st.none() | fates)
    def recover(self, name: str, fate: Fate | None) -> None:
        self.push_or_recover(name, "recover_steps", fate)

    def push_or_recover(self, name: str, verb: str, fate: Fate | None) -> None:
        side = self.sides[name]
        was_pending = side.pending
        began = was_pending is not None or (verb == "push_steps" and side.local > side.mapped)
        told = self.ask(name, verb, fate)
        self.note_records(name)
        info = self.volume(name).info()
        if isinstance(told, RejectedCommitError):
            assert side.status is not VolumeStatus.REJECTED_COMMIT or began
            side.rejected()
        elif told is True:
            assert began
        elif told is False:
            assert not began
        side.pending = self.pending_of(name) if info.is_pending else None

    @rule(name=who, fate=st.none() | fates)
    def pull(self, name: str, fate: Fate | None) -> None:
        side = self.sides[name]
        told = self.ask(name, "pull_steps", fate)
        self.note_records(name)
        if isinstance(told, RejectedCommitError):
            side.rejected()
        elif isinstance(told, ConflictError):
            assert side.local > side.mapped
            assert len(self.log) > side.remote
            side.status = VolumeStatus.CONFLICT
        elif told is True:
            side.accept(self.log[-1], len(self.log))
        elif told is False:
            assert len(self.log) == side.remote
        side.pending = self.pending_of(name)

    @rule(name=who, fate=st.none() | fates)
    def reset(self, name: str, fate: Fate | None) -> None:
        side = self.sides[name]
        local = side.local
        told = self.ask(name, "reset_steps", fate)
        self.note_records(name)
        side.pending = self.pending_of(name)
        if self.volume(name).info().local > local:
            side.accept(self.log[-1], len(self.log))
        elif not isinstance(told, Exception | DiedError):
            raise AssertionError("a reset takes an LSN")
        else:
            side.status = self.volume(name).info().status

    @rule(name=who, fate=st.none() | fates)
    def fetch(self, name: str, fate: Fate | None) -> None:
        told = self.ask(name, "fetch_steps", fate)
        if isinstance(told, int):
            assert told == len(self.log) - self.sides[name].remote

    @rule(name=who)
    def hydrate(self, name: str) -> None:
        self.volume(name).hydrate()
        assert self.volume(name).hydrate() == 0

    @rule(name=who, keep=st.integers(0, 9))
    def evict(self, name: str, keep: int) -> None:
        """Pages that the place has go, and are fetched again."""
        self.volume(name).evict(keep * 4096)
        left = self.volume(name).evict(keep * 4096)
        assert left == 0

    @rule(number=st.integers(0, 9))
    def late_create(self, number: int) -> None:
        """A create that no client waits for any more takes effect, or finds its name taken."""
        self.world.let_one_through(number)
        self.note_records(None)

    @rule(name=who)
    def reopen(self, name: str) -> None:
        for each in [each for each in self.readers if each[0] == name]:
            each[1].close()
            self.readers.remove(each)
        self.clients[name].close()
        self.clients[name] = self.world.open(name)

    def ask(self, name: str, verb: str, fate: Fate | None) -> Any:
        """What an operation returned or raised; a client that died is opened again."""
        try:
            return self.world.run(getattr(self.volume(name), verb)(), fate)
        except DiedError as died:
            self.reopen(name)
            return died
        except (RejectedCommitError, ConflictError, OutcomeUnknownError, ChunkError) as error:
            return error

    def pending_of(self, name: str) -> int | None:
        push = self.volume(name)._local.rows.push
        return None if push is None else push.end

    def hear(self, call: PlaceCall) -> None:
        """Note what a record has that is about to be created: its client knows, so far."""
        if not isinstance(call, CreateRecord) or call.name == PLACE:
            return
        for name, side in self.sides.items():
            if not self.clients[name].names():  # as the model begins
                continue
            push = self.volume(name)._local.rows.push
            if push is not None and push.data == call.data:
                self.pushes[call.data] = Push(name, push.end, side.versions[push.end])

    def note_records(self, name: str | None) -> None:
        """Look which records came; a client that says that its push was published is right."""
        log = bytes.fromhex(self.volume("a").log)
        while True:
            chunk = self.world.bucket.chunks.get(commit_name(log, len(self.log) + 1).encode())
            if chunk is None:
                break
            self.records.append(bytes(chunk.content))
            self.log.append(self.pushes[self.records[-1]].pages)
        if name is None:
            return
        side, mapping = self.sides[name], self.volume(name)._local.rows.snapshot.mapping
        while side.remote < mapping.remote:
            push = self.pushes[self.records[side.remote]]
            if push.name != name or push.end not in side.versions:
                break
            side.pending = push.end
            side.published()

    # --- what always holds ------------------------------------------------------------------------

    @invariant()
    def all_holds(self) -> None:
        if not hasattr(self, "clients"):
            return
        for name, side in self.sides.items():
            info = self.volume(name).info()
            assert (info.local, info.remote) == (side.local, side.remote)
            assert info.unpushed == side.local - side.mapped
            assert info.status is side.status
            assert info.is_pending == (side.pending is not None)
            with self.volume(name).reader() as reader:
                assert seen(reader, 12) == side.pages
        for _, reader, expected in self.readers:
            assert seen(reader, 12) == expected
        log = bytes.fromhex(self.volume("a").log)
        for lsn, data in enumerate(self.records, 1):
            assert self.world.bucket.chunks[commit_name(log, lsn).encode()].content == data

    def teardown(self) -> None:
        for client in getattr(self, "clients", {}).values():
            client.close()
        shutil.rmtree(self.folder)


def play(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        VolumeMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_volumes() -> None:
    play(60, 40)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_volumes_for_long() -> None:
    play(share_of(2_000), 50)
