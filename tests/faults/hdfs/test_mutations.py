"""Each change on a real server, and each thing that goes wrong with each call of the SDK for it.

What must hold: what is reported as done has had its effect, with the right bytes; what is reported
as not applied has not; all else is unknown, and then no byte is there that was not meant to be. In
all cases what was acknowledged before can be read at once, and the file gets closed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from services.hdfs import Hdfs
from siltstone.bindings.hdfs.calls import Turn
from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage
from siltstone.bindings.hdfs.writes import make_closed
from siltstone.core.errors import ChunkError, Outcome
from tests.faults.hdfs.faulty_client import FAULTS, FaultyClients, Plan
from tests.support.services.hdfs_services import HdfsService

BEFORE = b"what was there before"
MORE = bytes(range(256)) * 4
DEADLINES_S = (0.4, 2.0, 10.0, 50.0)
"""Of the calls that hang; others take milliseconds, or longer where a server has just begun."""


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A verb with the calls of the SDK that it makes, and what it leaves.

    Attributes:
        name: of the case.
        call: the verb.
        calls: of the SDK, each once.
        before: the content of the chunk ``a``.
        after: the same when the verb had its effect.
        writes: the calls of the SDK from which on it may have had it.
    """

    name: str
    call: Callable[[HdfsChunkStorage], None]
    calls: tuple[str, ...]
    before: bytes | None = None
    after: bytes | None = None
    writes: frozenset[str] = field(default_factory=frozenset)


CHANGING = frozenset({"create", "write", "hsync", "close", "recover_lease", "delete"})
MUTATIONS = (
    Mutation(
        name="create",
        call=lambda storage: storage.create("a", [MORE]),
        calls=("create", "write", "hsync", "close"),
        after=MORE,
        writes=CHANGING,
    ),
    Mutation(
        name="write",
        call=lambda storage: storage.write("a", len(BEFORE), [MORE]),
        calls=("get_file_info", "append", "write", "hsync", "close"),
        before=BEFORE,
        after=BEFORE + MORE,
        writes=CHANGING,
    ),
    Mutation(
        name="delete",
        call=lambda storage: storage.delete("a"),
        calls=("get_file_info", "delete"),
        before=BEFORE,
        writes=CHANGING,
    ),
    Mutation(
        name="seal",
        call=lambda storage: storage.seal("a"),
        calls=("get_file_info", "set_permission", "recover_lease"),
        before=BEFORE,
        after=BEFORE,
        writes=CHANGING | {"set_permission"},
    ),
)
CASES = [
    pytest.param(mutation, call, fault, id=f"{mutation.name}: {call} {fault}")
    for mutation in MUTATIONS
    for call in mutation.calls
    for fault in FAULTS
]


def faulty(service: HdfsService, plan: Plan, deadline_s: float) -> HdfsChunkStorage:
    storage = HdfsChunkStorage(service.settings)
    if plan.fault.startswith("hangs"):
        storage.service._deadline_s = deadline_s
    clients: Any = FaultyClients(storage.service.clients, plan)
    storage.service.clients = clients
    return storage


@pytest.mark.parametrize(("mutation", "call", "fault"), CASES)
def test_one_call_goes_wrong(hdfs: Hdfs, mutation: Mutation, call: str, fault: str) -> None:
    for deadline_s in DEADLINES_S:
        service = HdfsService(server=hdfs, more={"unsafe_append": True})
        if mutation.before is not None:
            service.outside_write("a", mutation.before)
        plan = Plan(call=call, fault=fault)
        storage = faulty(service, plan, deadline_s)
        outcome: str = "done"
        error: ChunkError | None = None
        try:
            mutation.call(storage)
        except ChunkError as raised:
            outcome, error = raised.outcome, raised
        if plan.happened:
            break
    assert plan.happened, "the fault did not happen"
    if call in mutation.writes:
        assert outcome == Outcome.UNKNOWN, error
    else:
        assert outcome in (Outcome.NOT_APPLIED, Outcome.UNKNOWN), error
    other = HdfsChunkStorage(service.settings)
    found = service.outside_read("a")
    if outcome == Outcome.NOT_APPLIED:
        assert found == mutation.before
    elif outcome == "done":
        assert found == mutation.after
    elif found is not None and mutation.after is not None:
        assert (mutation.after or b"").startswith(found)
        assert found.startswith(mutation.before or b"")
    else:
        assert found in (mutation.before, mutation.after)
    if mutation.before is not None and found is not None:
        # No reader has to wait for the file to be closed.
        buffer = bytearray(len(BEFORE))
        assert other.read_into("a", 0, buffer) == len(BEFORE)
        assert bytes(buffer) == BEFORE
    if found is not None and mutation.name == "write":
        make_closed(Turn(), other.service, other.service.key("a", "write"))
        while storage.service.unclosed:
            time.sleep(0.01)
        found = service.outside_read("a")
        assert found is not None
        assert mutation.after is not None
        assert mutation.after.startswith(found)
        other.write("a", len(found), [b"next"])
        assert service.outside_read("a") == found + b"next"
    other.close()
    storage.close()


def test_the_calls_of_each_verb_are_counted(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs, more={"unsafe_append": True})
    service.outside_write("a", BEFORE)
    wanted = {
        "create": ["create", "write", "hsync", "close"],
        "write": ["get_file_info", "append", "get_file_info", "write", "hsync", "close"],
        "stat": ["get_file_info"],
        "seal": ["get_file_info", "set_permission", "recover_lease"],
        "delete": ["get_file_info", "delete"],
        "used_space": ["get_content_summary"],
    }
    found = {}
    verbs: dict[str, Callable[[HdfsChunkStorage], object]] = {
        "create": lambda storage: storage.create("b", [MORE]),
        "write": lambda storage: storage.write("a", len(BEFORE), [MORE]),
        "stat": lambda storage: storage.stat("a"),
        "seal": lambda storage: storage.seal("a"),
        "delete": lambda storage: storage.delete("a"),
        "used_space": lambda storage: storage.used_space(),
    }
    for name, call in verbs.items():
        plan = Plan()
        storage = faulty(service, plan, max(DEADLINES_S))
        call(storage)
        made = plan.made[: len(wanted[name])]
        assert name == "delete" or set(plan.made[len(made) :]) <= {"recover_lease"}
        found[name] = made
        storage.close()
    assert found == wanted
