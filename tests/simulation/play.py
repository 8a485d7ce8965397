"""One run from its seed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.simulation.collections.story import CollectionStory
from tests.simulation.collections.world import CollectionWorld
from tests.simulation.keyspaces.story import KeyspaceStory
from tests.simulation.keyspaces.world import KeyspaceWorld
from tests.simulation.short_lives import ShortLives
from tests.simulation.story import Story
from tests.simulation.world import World
from tests.support.processor_limit import processor_limit

SEED_S = 120.0
"""Of the processor; a seed takes a few. On virtual time, only this finds one that never ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a run was like.

    Attributes:
        lines: its trace.
        digest: a hash of that.
        acknowledged: plain appends that were acknowledged; of keyspaces, changes.
        epoch: how many owners opened; of collections, how many processes there were.
    """

    lines: list[str]
    digest: str
    acknowledged: int
    epoch: int


def replay_command(
    seed: int,
    *,
    kafka: bool = False,
    short: bool = False,
    collections: bool = False,
    keyspaces: bool = False,
) -> str:
    """How to see a run again."""
    choices = f"{' --kafka' * kafka}{' --short' * short}{' --collections' * collections}"
    choices += " --keyspaces" * keyspaces
    return f"python -m tests.simulation {seed}{choices} --trace"


def play(
    seed: int,
    *,
    kafka: bool = False,
    short: bool = False,
    collections: bool = False,
    keyspaces: bool = False,
) -> Played:
    """Play a seed; what goes wrong is raised with the command that repeats it.

    Args:
        seed: of the run.
        kafka: whether the logs are in a model of Kafka.
        short: whether its owners live for seconds.
        collections: whether it is a story of collections, which have no owner.
        keyspaces: whether it is a story of a keyspace.
    """
    command = replay_command(
        seed, kafka=kafka, short=short, collections=collections, keyspaces=keyspaces
    )
    if collections:
        return _play_collections(seed, command)
    if keyspaces:
        return _play_keyspaces(seed, command)
    world = World(seed, kafka=kafka)
    with _told(world, command):
        _run(world, ShortLives(world) if short else Story(world))
    return Played(
        lines=world.trace.lines,
        digest=world.trace.digest,
        acknowledged=sum(ledger.acknowledged for ledger in world.ledgers),
        epoch=max(ledger.epoch for ledger in world.ledgers),
    )


def _play_collections(seed: int, command: str) -> Played:
    world = CollectionWorld(seed)
    with _told(world, command):
        _run(world, CollectionStory(world))
    return Played(
        lines=world.trace.lines,
        digest=world.trace.digest,
        acknowledged=sum(ledger.acknowledged for ledger in world.ledgers.values()),
        epoch=len(world.processes),
    )


def _play_keyspaces(seed: int, command: str) -> Played:
    world = KeyspaceWorld(seed)
    with _told(world, command):
        _run(world, KeyspaceStory(world))
    return Played(
        lines=world.trace.lines,
        digest=world.trace.digest,
        acknowledged=world.space.acknowledged,
        epoch=world.ledgers[0].epoch,
    )


@contextmanager
def _told(world: World | CollectionWorld, command: str) -> Iterator[None]:
    """Run a seed within its limit; add the command that repeats it to what goes wrong."""
    try:
        with _no_collection(), processor_limit(SEED_S):
            yield
    except Exception as group:  # noqa: BLE001 - told with its seed, and raised
        error = _innermost(group)
        error.add_note(f"seed {world.seed}; to see it again: {command}")
        for line in world.trace.lines[-12:]:
            error.add_note(line)
        raise error from None
    finally:
        world.close()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector away: ending parts of a dead process takes steps of the loop."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _run(world: World | CollectionWorld, story: Story | CollectionStory) -> None:
    runner = asyncio.Runner(loop_factory=world.loop)
    runner.get_loop().set_exception_handler(world.unheard)
    try:
        runner.run(story.run())
    except BaseException:
        # What it left may not come to an end, and is not what went wrong.
        with suppress(Exception):
            runner.close()
        raise
    runner.close()


def _innermost(error: Exception) -> Exception:
    """The first failure inside of groups."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
