"""Random lives of legacy segments, each from a seed, with deaths on the way."""

from __future__ import annotations

import random
from contextlib import suppress

from tests.support.migration.rolling_model import (
    AbsentError,
    DiedError,
    RollingModel,
    UnreadableError,
)

VERBS = ("create", "write", "write", "write", "seal", "truncate", "concat", "concat", "delete")


def carry_out(
    model: RollingModel, number: int, verb: str, name: str, other: str, size: int
) -> None:
    """Do one thing, where the original would not refuse it."""
    if verb == "create":
        model.create(name, size % 12 + 3)
        return
    opened = model.open(name)
    if verb == "write" and not opened.sealed:
        model.write(name, bytes([number % 251]) * size)
    elif verb == "seal":
        model.seal(name)
    elif verb == "truncate":
        model.truncate(name, size)
    elif verb == "delete":
        model.delete(name)
    elif verb == "concat" and name != other and not opened.sealed:
        source = model.open(other)
        if source.sealed and all(chunk in model.files for _, chunk in source.chunks):
            model.concat(name, other)


def random_life(seed: int, scope: str) -> RollingModel:
    """Three segments of a scope, and what became of them."""
    chance = random.Random(seed)
    model = RollingModel(replaces=bool(seed % 2))
    names = [f"{scope}/{letter}" for letter in "abc"]
    for name in names:
        model.create(name, chance.randint(3, 14))
    for number in range(1, chance.randint(2, 25)):
        verb = chance.choice(VERBS)
        name, other = chance.sample(names, 2)
        with suppress(AbsentError, UnreadableError, DiedError, KeyError):
            if verb == "concat" and chance.random() < 0.7:
                model.seal(other)
            model.calls_left = chance.randint(0, 6) if chance.random() < 0.1 else None
            carry_out(model, number, verb, name, other, chance.randint(0, 40))
        model.calls_left = None
    return model
