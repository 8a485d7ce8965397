"""Whole stores on virtual time, each from a seed: every owner, every fault, every order of steps.

What may fail: any call to long-term storage or the log, with each outcome; any process may die,
be paused and continue later, at any step; owners come and take over at any time; the power of the
disk under a file log fails between any two of its calls; a cluster of Kafka is away, refuses, loses
requests and answers, or lets them come later, whether or not a caller waits. What must hold: what
was acknowledged is there, once and in its order; nothing else is; an owner that was overtaken
acknowledges nothing more; nothing that is needed is deleted; retention cuts at append borders alone
and takes nothing that its rule keeps; a snapshot shows one version; in the end all drains and every
invariant holds.

A failure names its seed and the command that plays it again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.play import play
from tests.support.processor_limit import HOURS_S
from tests.support.simulation.seeds import SOAK_PARTS, soak_seeds, told_by_two_processes

FIRST = 8000
SEEDS = 100
"""Half as many as a left-out rule may need to be seen (``mutants.py``). The soak plays more."""
BATCH = 10
KAFKA_FIRST = 100
KAFKA_SEEDS = 6
SHORT_FIRST = 4000
SHORT_SEEDS = 40

ROOT = Path(__file__).parents[2]

# Each seed has a limit of its own, of the processor.
pytestmark = pytest.mark.timeout(HOURS_S)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, BATCH))
def test_seeds(first: int) -> None:
    for seed in range(first, first + BATCH):
        play(seed)


@pytest.mark.parametrize("first", range(KAFKA_FIRST, KAFKA_FIRST + KAFKA_SEEDS, 3))
def test_seeds_over_kafka(first: int) -> None:
    for seed in range(first, first + 3):
        play(seed, kafka=True)


@pytest.mark.parametrize("first", range(SHORT_FIRST, SHORT_FIRST + SHORT_SEEDS, BATCH))
def test_seeds_of_short_lives(first: int) -> None:
    for seed in range(first, first + BATCH):
        play(seed, short=True)


MEMORY = 7
"""One container, a log in memory."""
FILES = 14
"""Three containers, logs in files, and a power cut."""
KAFKA = 7
"""Logs in a model of Kafka."""
SHORT = 6
"""Owners that live for seconds, each end of a life among them."""


def test_a_seed_repeats_everything_and_another_one_is_another_story() -> None:
    first, again = play(MEMORY), play(MEMORY)
    assert len(first.lines) > 500
    assert first.epoch > 3
    assert first.lines == again.lines
    assert first.digest != play(8).digest


def test_a_seed_over_kafka_repeats_everything() -> None:
    first, again = play(KAFKA, kafka=True), play(KAFKA, kafka=True)
    assert first.lines == again.lines
    told = "\n".join(first.lines)
    assert all(text in told for text in ("away for", "dies", "deleted log-"))


def test_short_lives_repeat_everything_and_close_in_peace_in_each_way() -> None:
    first, again = play(SHORT, short=True), play(SHORT, short=True)
    assert first.lines == again.lines
    told = "\n".join(first.lines)
    assert all(f"closed in peace, flush {choice}" in told for choice in ("auto", "always", "never"))
    assert "dies" in told


def test_another_process_repeats_everything() -> None:
    """Also with other hashes of strings, which order sets."""
    first, again = told_by_two_processes(f"{FILES}")
    assert len(first) > 10_000
    assert b"power cut" in first
    assert b"opened epoch 1 of 2" in first
    assert first == again


def test_every_rule_to_leave_out_has_its_place() -> None:
    """The code changes; a mutant whose text is gone, or is there twice, tells nothing."""
    for mutant in MUTANTS:
        text = (ROOT / "siltstone" / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, mutant.name


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_PARTS))
def test_many_seeds(part: int) -> None:
    for seed in soak_seeds(part):
        play(seed)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_PARTS))
def test_many_seeds_over_kafka(part: int) -> None:
    for seed in soak_seeds(part):
        play(seed, kafka=True)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_PARTS))
def test_many_seeds_of_short_lives(part: int) -> None:
    for seed in soak_seeds(part):
        play(seed, short=True)
