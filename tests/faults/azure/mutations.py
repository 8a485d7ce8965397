"""What changes a container: each verb with the requests that it consists of, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.testing.faults.http_faults import Fault, Rule

BLOCK_BYTES = 1_000
SMALL = bytes(range(256)) * 3
"""One block."""
LARGE = bytes(range(251)) * 10
"""Three blocks, the last one smaller."""


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
    """A verb that is called on a container with known content.

    Attributes:
        name: of this case.
        blobs: the setting.
        before: the chunks that are there.
        after: these and others, when it has had its effect.
        refused: what is there when all but the decisive request has had its effect.
        call: the verb.
        steps: requests without an effect that others see, which come first.
        decisive: the one that has the effect.
    """

    name: str
    blobs: str
    before: Mapping[str, bytes] = field(default_factory=dict)
    after: Mapping[str, bytes]
    refused: Mapping[str, bytes] | None = None
    call: Callable[[AzureChunkStorage], None]
    steps: Sequence[Step] = ()
    decisive: Step

    @property
    def is_half(self) -> bool:
        """Whether something is there when the decisive request was refused."""
        return self.refused is not None


HEAD = Step(method="HEAD", target="")
MAKE = Step(method="PUT", target="/new$")
APPEND = Step(method="PUT", target=r"\?comp=appendblock", has_body=True)
STAGE = Step(method="PUT", target=r"\?(comp=block&|.*&comp=block$)", has_body=True)
COPY = Step(method="PUT", target=r"\?(comp=block&|.*&comp=block$)")
COMMIT = Step(method="PUT", target="comp=blocklist", has_body=True)

MUTATIONS = (
    Mutation(
        name="create",
        blobs="append",
        after={"new": SMALL},
        refused={"new": b""},
        call=lambda storage: storage.create("new", [SMALL[:100], SMALL[100:]]),
        decisive=APPEND,
    ),
    Mutation(
        name="whole create",
        blobs="append",
        after={"new": LARGE},
        call=lambda storage: storage.create_whole("new", [LARGE[:100], LARGE[100:]]),
        decisive=Step(method="PUT", target="/new$", has_body=True),
    ),
    Mutation(
        name="write",
        blobs="append",
        before={"one": SMALL},
        after={"one": SMALL + LARGE[:300]},
        call=lambda storage: storage.write("one", len(SMALL), [LARGE[:300]]),
        decisive=APPEND,
    ),
    Mutation(
        name="delete",
        blobs="append",
        before={"one": SMALL, "two": SMALL},
        after={"two": SMALL},
        call=lambda storage: storage.delete("one"),
        decisive=Step(method="DELETE", target="/one$"),
    ),
    Mutation(
        name="create of a block blob",
        blobs="block",
        after={"new": SMALL},
        call=lambda storage: storage.create("new", [SMALL[:100], SMALL[100:]]),
        decisive=Step(method="PUT", target="/new$", has_body=True),
    ),
    Mutation(
        name="create in blocks",
        blobs="block",
        after={"new": LARGE},
        call=lambda storage: storage.create("new", [LARGE]),
        steps=(STAGE,),
        decisive=COMMIT,
    ),
    Mutation(
        name="concat",
        blobs="block",
        before={"one": LARGE, "two": SMALL},
        after={"one": LARGE, "two": SMALL, "new": LARGE + SMALL[:500]},
        call=lambda storage: storage.concat("new", [("one", len(LARGE)), ("two", 500)]),
        steps=(HEAD, COPY),
        decisive=COMMIT,
    ),
)
