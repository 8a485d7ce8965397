"""Tests that are coroutine functions: each runs on a loop of its own, which ends with the test.

The loop is that of asyncio. With the marker ``virtual_time`` it is one that never waits: when
nothing can run it jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

from siltstone.testing.virtual_time import Clock, VirtualLoop


class _JumpingLoop(VirtualLoop):
    """A loop that gives access to its time.

    Attributes:
        clock: its time.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        super().__init__(self.clock)


def running_clock() -> Clock:
    """The virtual time that the test lives on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _JumpingLoop), "a test on virtual time needs the marker virtual_time"
    return loop.clock


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function; ``None`` leaves any other one to pytest.

    Each example of Hypothesis has a loop of its own. pytest fails what is left over and would not
    run: a generator, or a function that returns a coroutine.
    """
    test = pyfuncitem.obj
    jumps = pyfuncitem.get_closest_marker("virtual_time") is not None
    if is_hypothesis_test(test):
        example = test.hypothesis.inner_test
        if inspect.iscoroutinefunction(example):
            test.hypothesis.inner_test = _blocking(example, jumps=jumps)
        return None
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    _blocking(test, jumps=jumps)(**arguments)
    return True


def _blocking(
    test: Callable[..., Coroutine[Any, Any, None]], *, jumps: bool
) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*arguments: Any, **choices: Any) -> None:
        with asyncio.Runner(loop_factory=_JumpingLoop if jumps else None) as runner:
            runner.run(test(*arguments, **choices))

    return run
