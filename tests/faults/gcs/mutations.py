"""What changes a bucket: each verb with the requests that it consists of, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.core.constants import KIB
from siltstone.testing.faults.http_faults import Fault, Rule

PIECE_BYTES = 256 * KIB
"""The least that a piece may have; what is larger is sent in pieces."""
SMALL = bytes(range(256)) * 20
LARGE = bytes(range(251)) * (-(-PIECE_BYTES // 251) + 10)
"""Two pieces, the second one small."""
MANY = {f"many/{number:02}": b"%02d" % number for number in range(34)}
"""More than one request joins."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A request that a verb makes.

    Attributes:
        method: of HTTP.
        target: pattern of path and query.
        has_body: whether it holds bytes of a chunk, which may be damaged.
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
        has_answer: whether that one is answered by more than a status.
    """

    name: str
    before: Mapping[str, bytes] = field(default_factory=dict)
    after: Mapping[str, bytes]
    call: Callable[[GcsChunkStorage], None]
    steps: Sequence[Step] = ()
    decisive: Step
    has_answer: bool = True


CREATE = Step(method="POST", target="uploadType=multipart", has_body=True)
BEGIN = Step(method="POST", target="uploadType=resumable")
PIECE = Step(method="PUT", target="", has_body=True)
STAT = Step(method="GET", target="/o/(one|many)")
READ = Step(method="GET", target="/download/")
JOIN = Step(method="POST", target="/o/new/compose")
JOIN_BETWEEN = Step(method="POST", target="/o/%2F.*/compose")

MUTATIONS = (
    Mutation(
        name="create",
        after={"new": SMALL},
        call=lambda storage: storage.create("new", [SMALL[:100], SMALL[100:]]),
        decisive=CREATE,
    ),
    Mutation(
        name="whole create",
        after={"new": SMALL},
        call=lambda storage: storage.create_whole("new", [SMALL[:100], SMALL[100:]]),
        decisive=CREATE,
    ),
    Mutation(
        name="create in one piece",
        after={"new": LARGE[:PIECE_BYTES]},
        call=lambda storage: storage.create("new", [LARGE[:PIECE_BYTES]]),
        steps=(BEGIN,),
        decisive=PIECE,
    ),
    Mutation(
        name="concat",
        before={"one": SMALL, "two": SMALL},
        after={"one": SMALL, "two": SMALL, "new": SMALL + SMALL},
        call=lambda storage: storage.concat("new", [("one", len(SMALL)), ("two", len(SMALL))]),
        steps=(STAT,),
        decisive=JOIN,
    ),
    Mutation(
        name="concat of a beginning",
        before={"one": SMALL, "two": SMALL},
        after={"one": SMALL, "two": SMALL, "new": SMALL + SMALL[:500]},
        call=lambda storage: storage.concat("new", [("one", len(SMALL)), ("two", 500)]),
        steps=(STAT, READ, CREATE),
        decisive=JOIN,
    ),
    Mutation(
        name="concat of many",
        before=MANY,
        after={**MANY, "new": b"".join(MANY.values())},
        call=lambda storage: storage.concat("new", [(name, 2) for name in MANY]),
        # Its looks are those of the others.
        steps=(JOIN_BETWEEN,),
        decisive=JOIN,
    ),
    Mutation(
        name="delete",
        before={"one": SMALL, "two": SMALL},
        after={"two": SMALL},
        call=lambda storage: storage.delete("one"),
        decisive=Step(method="DELETE", target="/o/one"),
        has_answer=False,
    ),
)
