"""What arrives of the command's output when a write takes only a part of it.

Injected: standard files without a buffer of Python's, a pipe that does not block, a file that may
not grow, a reader who leaves. Must hold, with and without such a buffer: all bytes, or a code
that is not 0.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone.core.constants import KIB
from tests.unit.cli.conftest import COMMAND

BYTES = Random(1).randbytes(599_000)
VALUE = BYTES[:300_000]
NAMES = [f"{number:05}{'x' * 200}" for number in range(1_000)]
"""Their listing is longer than a pipe takes at once."""

LISTED = "".join(f"{name}\n" for name in NAMES).encode()
GIVES = {
    "cat": (["cat", "a"], BYTES),
    "table get": (["table", "get", "t", "k"], VALUE),
    "table ls": (["table", "ls", "0"], LISTED),
}
KIB_MAX = 300
"""The limit of a file's length: less than the segment, more than the files that a reader needs."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = siltstone.init(tmp_path_factory.mktemp("whole") / "store").parent
    with siltstone.open(folder) as store:
        store.create("a").append(BYTES)
        store.create_table("t").update({b"k": VALUE})
        for name in NAMES:
            store.create_table(name)
    return folder


@pytest.fixture(params=["buffered", "unbuffered"])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    return {**kept, "PYTHONUNBUFFERED": "1"} if request.param == "unbuffered" else kept


@pytest.mark.slow
@pytest.mark.parametrize("verb", GIVES)
def test_a_pipe_that_does_not_block_gets_all_bytes(
    verb: str, filled: Path, environment: dict[str, str]
) -> None:
    line, expected = GIVES[verb]
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    with subprocess.Popen(
        [*COMMAND, "--store", str(filled), *line],
        stdout=sink,
        stderr=subprocess.PIPE,
        env=environment,
    ) as running:
        os.close(sink)
        with open(source, "rb") as pipe:
            found = pipe.read()
        assert running.stderr is not None
        assert (running.wait(120), running.stderr.read()) == (0, b"")
    assert found == expected


@pytest.mark.slow
def test_a_file_that_may_not_grow_is_told(environment: dict[str, str], tmp_path: Path) -> None:
    """A short write and then a failure, as on a disk that becomes full."""
    folder = siltstone.init(tmp_path / "store").parent
    with siltstone.open(folder) as store:
        store.create("a").append(BYTES)
    target = tmp_path / "out"
    limited = f'ulimit -f {2 * KIB_MAX}; exec "$@" > "$0"'
    ran = subprocess.run(
        ["sh", "-c", limited, str(target), *COMMAND, "--store", str(folder), "cat", "a"],
        stderr=subprocess.PIPE,
        env=environment,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (1, b"siltstone: [Errno 27] File too large\n")
    assert target.read_bytes() == BYTES[: KIB_MAX * KIB]


@pytest.mark.slow
@pytest.mark.parametrize("line", [["cat", "a"], ["cat", "--help"]])
def test_a_reader_who_goes_away_ends_it_with_141(
    line: list[str], filled: Path, environment: dict[str, str]
) -> None:
    source, sink = os.pipe()
    os.close(source)
    with open(sink, "wb", buffering=0) as pipe:
        ran = subprocess.run(
            [*COMMAND, "--store", str(filled), *line],
            stdout=pipe,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=120,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_messages_on_a_pipe_that_does_not_block_are_whole(
    filled: Path, environment: dict[str, str]
) -> None:
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    name = "n" * 100_000
    with subprocess.Popen(
        [*COMMAND, "--store", str(filled), name], stderr=sink, env=environment
    ) as running:
        os.close(sink)
        with open(source, "rb") as pipe:
            found = pipe.read()
        assert running.wait(120) == 2
    assert found.count(b"n") > 100_000
    assert found.endswith(b"\n")


@pytest.mark.slow
def test_what_comes_from_a_pipe_that_does_not_block_is_taken_whole(tmp_path: Path) -> None:
    folder = siltstone.init(tmp_path / "store").parent
    with siltstone.open(folder) as store:
        store.create_table("t")
        store.create("a")
    for line in (["table", "put", "t", "k", "-"], ["append", "a"]):
        source, sink = os.pipe()
        os.set_blocking(source, False)
        with subprocess.Popen([*COMMAND, "--store", str(folder), *line], stdin=source) as running:
            os.close(source)
            with open(sink, "wb") as pipe:  # more than it holds: a part is read before the rest
                pipe.write(VALUE)
            assert running.wait(120) == 0
    with siltstone.open(folder) as store:
        found = store.table("t").get(b"k")
        assert found is not None
        assert found.value == VALUE
        assert store.segment("a").read(0, len(VALUE) + 1) == VALUE
