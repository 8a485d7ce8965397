"""Every decoder of persisted bytes, each as a function of bytes alone.

They are found, not listed: a new one is fuzzed from the day on which it is written. An argument
besides the bytes gets a value by its name; a name without one is an error here.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import ModuleType

import siltstone
from siltstone.core.records.collection_change import ChangeKind
from siltstone.core.records.keys import RowKind
from siltstone.core.records.task import TaskKind
from siltstone.objects.records.footer import FooterPiece

PREFIXES = ("decode_", "read_journal_file", "open_envelope", "claimed_kind")
OURS = (
    "siltstone.core.records",
    "siltstone.journal",
    "siltstone.metadata",
    "siltstone.objects.records",
    "siltstone.tier1",
)
BYTES = frozenset({"data", "value", "body", "payload", "row_key"})
OTHERS: dict[str, tuple[object, ...]] = {
    "where": ("a file",),
    "name": ("a name",),
    "offset": (0,),
    "segment_id": (7,),
    "chunk_id": (9,),
    "session_id": (9,),
    "group": (0,),
    "start": (0, 4096),
    "number": (3,),
    "epoch": (2,),
    "scope": (0, 1),
    "count": (0, 1, 5),
    "due_ms": (10,),
    "subject": (11,),
    "to_damage": (False, True),
    "first_sqn": (1,),
    "piece": (FooterPiece(first_sqn=2, record=0, offset=0, length=177, hashes=(1, 1)),),
}
KINDS: dict[str, tuple[int, ...]] = {
    "decode_change": tuple(ChangeKind),
    "decode_task": tuple(TaskKind),
    "decode_number": (RowKind.NAME,),
}

Decoder = Callable[[bytes], object]


class AnySum(int):
    """A checksum that equals every other: what stands after it gets to be decoded."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


def modules() -> list[ModuleType]:
    """The modules that decode persisted bytes."""
    names = [
        module.name
        for module in pkgutil.walk_packages(siltstone.__path__, "siltstone.")
        if module.name.startswith(OURS)
    ]
    return [import_module(name) for name in sorted(names)]


def decoders() -> dict[str, Decoder]:
    """All of them by name; several for one that takes a kind or the like.

    Where an earlier module has one of the same name, the name begins with that of the module.
    """
    found: dict[str, Decoder] = {}
    for module in modules():
        for name, function in vars(module).items():
            if name.startswith(PREFIXES) and getattr(function, "__module__", "") == module.__name__:
                for each, decoder in _variants(name, function):
                    alone = f"{module.__name__.rpartition('.')[2]}.{each}"
                    found[alone if each in found else each] = decoder
    return found


@contextmanager
def sums_that_match() -> Iterator[None]:
    """Let no checksum fail meanwhile, in any of ``modules``."""
    changed = [
        (module, name, vars(module)[name])
        for module in modules()
        for name in ("crc32c", "crc32c_of")
        if name in vars(module)
    ]
    for module, name, _ in changed:
        setattr(module, name, lambda *_: AnySum())
    try:
        yield
    finally:
        for module, name, real in changed:
            setattr(module, name, real)


def _variants(name: str, function: Callable[..., object]) -> Iterator[tuple[str, Decoder]]:
    cases: list[dict[str, object]] = [{}]
    taken = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in BYTES:
            assert not taken, f"{name} takes bytes twice"
            taken = parameter.name
            continue
        values = KINDS[name] if parameter.name == "kind" else OTHERS[parameter.name]
        cases = [{**case, parameter.name: value} for case in cases for value in values]
    assert taken, f"{name} takes no bytes"
    for case in cases:
        tail = " ".join(
            f"{key}={value}"
            for key, value in case.items()
            if len(OTHERS.get(key, KINDS.get(name, ()))) > 1
        )
        yield f"{name} {tail}".strip(), partial(_decode, function, taken, case)


def _decode(
    function: Callable[..., object], taken: str, case: dict[str, object], data: bytes
) -> object:
    found = function(**{**case, taken: data})
    return list(found) if inspect.isgenerator(found) else found
