"""Work that another thread begins or its owner takes back."""

from __future__ import annotations

import threading

import pytest

from siltstone.store.blocking.read_thread import SecondThread


@pytest.mark.timeout(60)
def test_what_was_begun_is_waited_for_and_what_was_not_never_begins() -> None:
    second = SecondThread("second")
    begun, proceed = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> None:
        begun.set()
        proceed.wait()
        done.append("first")

    wait_for_first = second.share(first)
    begun.wait()
    second.share(lambda: done.append("second"))()
    waiting = threading.Thread(target=wait_for_first)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    proceed.set()
    waiting.join()
    assert done == ["first"]
    second.close()
    second.close()
    assert done == ["first"]


@pytest.mark.timeout(60)
def test_after_the_end_nothing_begins() -> None:
    never_used = SecondThread("second")
    never_used.close()
    never_used.share(lambda: pytest.fail("begun after the end"))()
    assert not [thread for thread in threading.enumerate() if thread.name == "second"]
