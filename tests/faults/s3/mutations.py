"""What changes a bucket: each verb with the requests that it consists of, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.core.constants import MIB
from siltstone.testing.faults.http_faults import Fault, Rule

PART_BYTES = 5 * MIB
"""The least that a part may have; what is larger than one is sent in parts."""
SMALL = bytes(range(256)) * 3
LARGE = bytes(range(251)) * (-(-PART_BYTES // 251) + 10)
"""Two parts, the second one small."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A request that a verb makes.

    Attributes:
        method: of HTTP.
        target: pattern of path and query.
        has_body: whether there is something to damage.
    """

    method: str
    target: str
    has_body: bool = False

    def rule(self, fault: Fault) -> Rule:
        return Rule(fault=fault, method=self.method, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A verb that is called on a bucket with known content.

    Attributes:
        name: of this case.
        before: the chunks that are there.
        after: these and others, when it has had its effect.
        call: the verb.
        steps: requests without an effect that others see, which come first.
        decisive: the one that has the effect.
    """

    name: str
    before: Mapping[str, bytes] = field(default_factory=dict)
    after: Mapping[str, bytes]
    call: Callable[[S3ChunkStorage], None]
    steps: Sequence[Step] = ()
    decisive: Step


HEAD = Step(method="HEAD", target="")
BEGIN = Step(method="POST", target=r"\?uploads$")
PART = Step(method="PUT", target="partNumber=1", has_body=True)
LAST_PART = Step(method="PUT", target="partNumber=2", has_body=True)
COPY = Step(method="PUT", target="partNumber=1")
COMPLETE = Step(method="POST", target=r"\?uploadId=", has_body=True)


def _delete_many(storage: S3ChunkStorage) -> None:
    for error in storage.delete_many(["one", "two", "gone"]).values():
        raise error


MUTATIONS = (
    Mutation(
        name="create",
        after={"new": SMALL},
        call=lambda storage: storage.create("new", [SMALL[:100], SMALL[100:]]),
        decisive=Step(method="PUT", target="/new$", has_body=True),
    ),
    Mutation(
        name="create in parts",
        after={"new": LARGE},
        call=lambda storage: storage.create("new", [LARGE]),
        steps=(BEGIN, PART, LAST_PART),
        decisive=COMPLETE,
    ),
    Mutation(
        name="whole create",
        after={"new": SMALL},
        call=lambda storage: storage.create_whole("new", [SMALL[:100], SMALL[100:]]),
        decisive=Step(method="PUT", target="/new$", has_body=True),
    ),
    Mutation(
        name="concat",
        before={"one": LARGE, "two": SMALL},
        after={"one": LARGE, "two": SMALL, "new": LARGE + SMALL[:500]},
        call=lambda storage: storage.concat("new", [("one", len(LARGE)), ("two", 500)]),
        steps=(HEAD, BEGIN, COPY),
        decisive=COMPLETE,
    ),
    Mutation(
        name="concat of small chunks",
        before={"one": SMALL, "two": SMALL},
        after={"one": SMALL, "two": SMALL, "new": SMALL + SMALL[:500]},
        call=lambda storage: storage.concat("new", [("one", len(SMALL)), ("two", 500)]),
        steps=(HEAD, Step(method="GET", target="/two$")),
        decisive=Step(method="PUT", target="/new$", has_body=True),
    ),
    Mutation(
        name="delete",
        before={"one": SMALL, "two": SMALL},
        after={"two": SMALL},
        call=lambda storage: storage.delete("one"),
        steps=(HEAD,),
        decisive=Step(method="DELETE", target="/one$"),
    ),
    Mutation(
        name="delete many",
        before={"one": SMALL, "two": SMALL, "three": SMALL},
        after={"three": SMALL},
        call=_delete_many,
        decisive=Step(method="POST", target=r"\?delete$", has_body=True),
    ),
)
