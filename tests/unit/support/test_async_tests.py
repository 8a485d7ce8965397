"""Tests that are coroutine functions are run, to their end, and none passes without being run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.architecture.source_tree import ROOT

HEAD = """
import asyncio
import functools
import time
import pytest
from hypothesis import given, strategies as st
"""
REAL = "-p", "tests.support.async_tests"


def outcomes(folder: Path, body: str, *options: str) -> dict[str, str]:
    """How each test of a file ends, by its name, under the settings of this repository."""
    file = folder / "test_sample.py"
    file.write_text(HEAD + body, encoding="utf-8")
    settings = "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)
    told = folder / "told.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *settings, *options]
    done = subprocess.run(
        [*command, f"--junitxml={told}", f"--basetemp={folder / 'base'}", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert told.exists(), done.stdout + done.stderr
    cases = ElementTree.parse(told).getroot().iter("testcase")
    return {case.attrib["name"]: next((child.tag for child in case), "passed") for case in cases}


@pytest.mark.slow
def test_a_coroutine_is_awaited_and_what_it_raises_fails_it(tmp_path: Path) -> None:
    body = """
async def test_that_holds(tmp_path):
    await asyncio.sleep(0)
    assert tmp_path.is_dir()

async def test_that_does_not_hold():
    await asyncio.sleep(0)
    assert False

class TestOfAClass:
    async def test_that_does_not_hold_either(self):
        assert False

@pytest.mark.parametrize("number", [1])
async def test_with_a_parameter(number):
    assert number == 1

@pytest.mark.virtual_time
async def test_that_sleeps_for_a_day():
    begun = time.monotonic()
    await asyncio.sleep(24 * 3600)
    assert time.monotonic() - begun < 60

@pytest.mark.virtual_time
async def test_that_waits_for_nothing():
    await asyncio.get_running_loop().create_future()

@given(st.integers())
async def test_of_every_number(number):
    await asyncio.sleep(0)
    assert number < 1_000

@pytest.mark.virtual_time
@given(st.integers(0, 9))
async def test_of_some_numbers(tmp_path_factory, number):
    assert asyncio.get_running_loop().time() == 0
    await asyncio.sleep(24 * 3600)

async def test_that_leaves_a_task():
    async def forever():
        try:
            await asyncio.sleep(3600)
        finally:
            print("cancelled")
    asyncio.create_task(forever())
    await asyncio.sleep(0)
"""
    assert outcomes(tmp_path, body, *REAL) == {
        "test_that_holds": "passed",
        "test_that_does_not_hold": "failure",
        "test_that_does_not_hold_either": "failure",
        "test_with_a_parameter[1]": "passed",
        "test_that_sleeps_for_a_day": "passed",
        "test_that_waits_for_nothing": "failure",
        "test_of_every_number": "failure",
        "test_of_some_numbers": "passed",
        "test_that_leaves_a_task": "passed",
    }


NOT_RUN = """
async def test_that_yields():
    yield

def wrapped(test):
    @functools.wraps(test)
    def never_awaits(*arguments, **choices):
        return test(*arguments, **choices)
    return never_awaits

@wrapped
async def test_in_a_wrapper():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [REAL, ()])
def test_what_would_not_be_awaited_fails(tmp_path: Path, options: tuple[str, ...]) -> None:
    body = NOT_RUN if options else f"{NOT_RUN}\nasync def test_without_the_plugin():\n    pass\n"
    found = outcomes(tmp_path, body, *options)
    assert len(found) == (2 if options else 3)
    # What is found when a coroutine is thrown away may come in the setup of the next test.
    assert set(found.values()) <= {"failure", "error"}
