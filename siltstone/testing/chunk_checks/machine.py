"""Random runs of a chunk storage next to a model of it, which is a dictionary.

Needs the package ``hypothesis``, which comes with the extra ``testing``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Protocol

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
    Outcome,
)
from siltstone.core.storage.optional_verbs import create_whole

NAMES = ("a", "a-", "a.b", "b/-", "b/c", "b/c0", "b0", "é/x")
"""Few, so that they meet; in an order that is not that of their parts. None is another's folder."""

STEPS = 30

clients = st.integers(0, 1)
contents = st.binary(min_size=1, max_size=20)
names = st.sampled_from(NAMES)
places = st.integers(0, 50)


class OpenableService(Protocol):
    """What a run needs of a service."""

    def open(self) -> ChunkStorage:
        """Return another client."""
        ...

    def outside_read(self, name: str) -> bytes | None:
        """Return what the service holds."""
        ...


@dataclass(slots=True)
class Modelled:
    """A chunk as it should be."""

    content: bytes
    writes: int = 1
    is_sealed: bool = False
    is_whole: bool = False


@dataclass
class Model:
    """All chunks as they should be."""

    chunks: dict[str, Modelled] = field(default_factory=dict)

    def listed(self, prefix: str, start_after: str) -> list[tuple[str, int]]:
        """What a listing returns."""
        keys = sorted(self.chunks, key=str.encode)
        return [
            (key, len(self.chunks[key].content))
            for key in keys
            if key.startswith(prefix) and key.encode() > start_after.encode()
        ]


class ChunkMachine(RuleBasedStateMachine):
    """Two clients of one service do the same things as the model, which says what comes of each."""

    def __init__(self, service: OpenableService, folder: str) -> None:
        super().__init__()
        self.service = service
        self.folder = folder
        self.model = Model()
        self.clients = [service.open(), service.open()]
        self.capabilities = self.clients[0].capabilities

    @rule(client=clients, name=names, content=contents)
    def create(self, client: int, name: str, content: bytes) -> None:
        """A free name is taken, a taken one is refused."""
        found = self._tried(lambda: self.clients[client].create(self._key(name), [content]))
        if name in self.model.chunks:
            self._refused(found, ChunkExistsError)
        else:
            assert found is None
            self.model.chunks[name] = Modelled(content)

    @rule(client=clients, name=names, content=contents)
    def create_whole(self, client: int, name: str, content: bytes) -> None:
        """The same, for a chunk that may refuse to grow."""
        if not self.capabilities.whole:
            return
        made = partial(create_whole, self.clients[client], self._key(name), [content])
        found = self._tried(made)
        if name in self.model.chunks:
            self._refused(found, ChunkExistsError)
        else:
            assert found is None
            self.model.chunks[name] = Modelled(content, is_whole=True)

    @rule(client=clients, name=names, content=contents, off=st.sampled_from((0, 0, -1, 1)))
    def write(self, client: int, name: str, content: bytes, off: int) -> None:
        """Only the end takes bytes, and only of a chunk that is there and not sealed."""
        chunk = self.model.chunks.get(name)
        offset = max(0, off + (0 if chunk is None else len(chunk.content)))
        if not self._may_grow(chunk, offset + len(content)):
            return
        write = self.clients[client].write
        found = self._tried(lambda: write(self._key(name), offset, [content]))
        if chunk is None:
            self._refused(found, ChunkNotFoundError)
        elif chunk.is_sealed and offset == len(chunk.content):
            self._refused(found, ChunkAccessDeniedError)
        elif chunk.is_sealed or offset != len(chunk.content):
            self._refused(found, (ChunkOffsetError, ChunkAccessDeniedError))
        elif chunk.is_whole and found is not None:
            self._refused(found, ChunkAccessDeniedError)
        else:
            assert found is None
            chunk.content += content
            chunk.writes += 1

    @rule(client=clients, name=names)
    def seal(self, client: int, name: str) -> None:
        """A sealed chunk stays what it is."""
        if not self.capabilities.seal:
            return
        found = self._tried(lambda: self.clients[client].seal(self._key(name)))
        if name in self.model.chunks:
            assert found is None
            self.model.chunks[name].is_sealed = True
        else:
            self._refused(found, ChunkNotFoundError)

    @rule(client=clients, name=names)
    def delete(self, client: int, name: str) -> None:
        """What is there goes, once."""
        found = self._tried(lambda: self.clients[client].delete(self._key(name)))
        if self.model.chunks.pop(name, None) is None:
            self._refused(found, ChunkNotFoundError)
        else:
            assert found is None

    @rule(client=clients, name=names, offset=places, length=places)
    def read(self, client: int, name: str, offset: int, length: int) -> None:
        """Every range is that of the model."""
        buffer = bytearray(length)
        chunk = self.model.chunks.get(name)
        count = self._tried(lambda: self.clients[client].read_into(self._key(name), offset, buffer))
        if chunk is None:
            self._refused(count, ChunkNotFoundError)
        elif offset > len(chunk.content):
            self._refused(count, ChunkOffsetError)
        else:
            wanted = chunk.content[offset : offset + length]
            assert count == len(wanted)
            assert buffer[:count] == wanted

    @rule(client=clients, name=names)
    def stat(self, client: int, name: str) -> None:
        """The length is that of the model."""
        found = self._tried(lambda: self.clients[client].stat(self._key(name)))
        if name in self.model.chunks:
            assert found.name == self._key(name)
            assert found.length == len(self.model.chunks[name].content)
        else:
            self._refused(found, ChunkNotFoundError)

    @rule(
        client=clients,
        prefix=st.sampled_from(("", "a", "b", "b/", "b/c", "c")),
        start=st.sampled_from(("", "a", "a0", "b/", "b/c", "é")),
    )
    def listing(self, client: int, prefix: str, start: str) -> None:
        """A listing is that of the model."""
        start_after = self.folder + start if start else ""
        listed = self.clients[client].list(self.folder + prefix, start_after)
        found = [(chunk.name, chunk.length) for chunk in listed]
        wanted = self.model.listed(prefix, start)
        assert found == [(self._key(name), length) for name, length in wanted]

    @rule(client=clients, name=names, parts=st.lists(names, min_size=1, max_size=3))
    def concat(self, client: int, name: str, parts: list[str]) -> None:
        """The new chunk is made of copies; sources stay."""
        known = self.model.chunks
        lengths = [len(known[name].content) if name in known else 1 for name in parts]
        if not self._may_join(lengths):
            return
        sources = [(self._key(part), size) for part, size in zip(parts, lengths, strict=True)]
        found = self._tried(lambda: self.clients[client].concat(self._key(name), sources))
        missing = any(part not in known for part in parts)
        if missing or name in known:
            wanted = [ChunkNotFoundError] * missing + [ChunkExistsError] * (name in known)
            self._refused(found, tuple(wanted))
        else:
            assert found is None
            known[name] = Modelled(b"".join(known[part].content for part in parts))

    @rule(client=clients)
    def reopen(self, client: int) -> None:
        """A client closes, and another one comes."""
        self.clients[client].close()
        self.clients[client] = self.service.open()

    def teardown(self) -> None:
        """In the end the service holds what the model says; then it is emptied."""
        for name, chunk in self.model.chunks.items():
            assert self.service.outside_read(self._key(name)) == chunk.content
        for name in self.model.chunks:
            self.clients[0].delete(self._key(name))
        for client in self.clients:
            client.close()

    def _key(self, name: str) -> str:
        return self.folder + name

    def _may_grow(self, chunk: Modelled | None, length: int) -> bool:
        able = self.capabilities
        writes = 0 if chunk is None else chunk.writes
        return able.append and writes < able.appends_max and length <= able.chunk_bytes_max

    def _may_join(self, lengths: list[int]) -> bool:
        able = self.capabilities
        return (
            able.concat
            and len(lengths) <= able.concat_parts_max
            and min(lengths) >= able.concat_part_bytes_min
            and max(lengths) <= able.concat_part_bytes_max
            and sum(lengths) <= able.chunk_bytes_max
        )

    def _tried(self, call: Callable[[], Any]) -> Any:
        """Return what ``call`` returns, or the error of the contract that it raises."""
        try:
            return call()
        except ChunkError as error:
            return error

    def _refused(
        self, found: object, kinds: type[ChunkError] | tuple[type[ChunkError], ...]
    ) -> None:
        assert isinstance(found, kinds), found
        assert found.outcome is Outcome.NOT_APPLIED


def run_machine(service: OpenableService, runs: int) -> None:
    """Compare ``runs`` random runs with the model, each below a folder of its own.

    The same runs every time, so that what fails fails again.
    """
    numbers = count(1)

    class Run(ChunkMachine):
        def __init__(self) -> None:
            super().__init__(service, f"run-{next(numbers)}/")

    run_state_machine_as_test(
        Run,
        settings=settings(
            max_examples=runs,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            derandomize=True,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )
