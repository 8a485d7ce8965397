"""The heart of a holder: it beats while its claim is the newest, and not one beat longer."""

from __future__ import annotations

import threading
from typing import cast

from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.heartbeat import Beats, Heart

NONCE = bytes(range(16))
WAIT_S = 120.0


class Shown:
    """What others see, and hearts that write it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.more = threading.Semaphore(0)
        self.asked = threading.Semaphore(0)
        self.is_newest = True
        self.failures = 0

    def show(self, text: str, end: int, deadline: Deadline) -> None:
        assert deadline.left_s() > 0
        if self.failures:
            self.failures -= 1
            raise OSError("away")
        self.texts.append(text)
        self.more.release()

    def ask(self) -> bool:
        self.asked.release()
        return self.is_newest

    def heart(self) -> Heart:
        return Heart(
            cast("Beats", self),
            NONCE,
            beat_s=1e-4,
            deadline_s=WAIT_S,
            end=lambda: 7,
            is_newest=self.ask,
        )

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self.more.acquire(timeout=WAIT_S)


def test_every_beat_differs_and_names_the_claim() -> None:
    shown = Shown()
    heart = shown.heart()
    shown.wait(5)
    heart.stop()
    heart._thread.join(WAIT_S)
    assert len(set(shown.texts)) == len(shown.texts) >= 5
    assert all(text.startswith(NONCE.hex()) for text in shown.texts)


def test_the_heart_of_an_owner_that_was_fenced_stops_by_itself() -> None:
    shown = Shown()
    heart = shown.heart()
    shown.wait(2)
    shown.is_newest = False
    heart._thread.join(WAIT_S)
    assert not heart._thread.is_alive()
    assert not heart._stopped.is_set(), "it was not stopped"


def test_one_that_never_was_the_newest_shows_nothing() -> None:
    shown = Shown()
    shown.is_newest = False
    heart = shown.heart()
    heart._thread.join(WAIT_S)
    assert (heart._thread.is_alive(), shown.texts) == (False, [])


def test_it_continues_after_a_failure() -> None:
    shown = Shown()
    shown.failures = 3
    heart = shown.heart()
    shown.wait(2)
    heart.stop()
    heart._thread.join(WAIT_S)
    assert not heart._thread.is_alive()
