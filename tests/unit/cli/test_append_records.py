"""``append`` by records, and exactly once under the name of a writer.

The model is the input itself: however often and wherever a run is ended, and however its repeat is
cut, the segment holds the input once.
"""

from __future__ import annotations

import io
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import siltstone
from siltstone.cli import append_command
from siltstone.cli.record_cuts import Lines, Pieces, Prefixed, RecordCutter
from siltstone.store.blocking.segment import Segment
from siltstone.store.blocking.writer import Writer
from tests.support.command import Command

LINES = b"".join(b"line %d\n" % number for number in range(1_000)) + b"the last one"


def prefixed(*records: bytes) -> bytes:
    return b"".join(len(record).to_bytes(4, "big") + record for record in records)


RECORDS = prefixed(*(Random(number).randbytes(number) for number in range(200)))


@pytest.mark.parametrize(
    ("make", "data", "expected"),
    [
        (lambda: Pieces(4), b"0123456789", [b"0123", b"4567", b"89"]),
        (lambda: Pieces(4), b"01234567", [b"0123", b"4567"]),
        (lambda: Lines(100), b"a\n\r\n\nb\rc", [b"a\n", b"\r\n", b"\n", b"b\rc"]),
        (lambda: Lines(100), b"\n", [b"\n"]),
        (lambda: Lines(100), b"", []),
        (
            lambda: Prefixed(100),
            prefixed(b"", b"abc", b"\n"),
            [prefixed(b""), prefixed(b"abc"), prefixed(b"\n")],
        ),
    ],
)
def test_a_stream_is_cut_after_its_records_however_it_arrives(
    make: Callable[[], RecordCutter], data: bytes, expected: list[bytes]
) -> None:
    for step in range(1, len(data) + 2):
        cutter = make()
        found = [
            record
            for start in range(0, len(data), step)
            for record in cutter.take(data[start : start + step])
        ]
        assert found + cutter.end() == expected


def test_what_no_append_takes_is_refused() -> None:
    with pytest.raises(ValueError, match="record=1 limit=10"):
        Lines(10).take(b"short\n01234567890")
    with pytest.raises(ValueError, match="record=1 length=7 limit=10"):
        Prefixed(10).take(prefixed(b"short", b"longer."))
    cut = Prefixed(100)
    assert cut.take(prefixed(b"abc", b"defg")[:-1]) == [prefixed(b"abc")]
    with pytest.raises(ValueError, match="within a record record=1 has=7 needs=8"):
        cut.end()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an append have few bytes, so that an input takes many."""
    monkeypatch.setattr(append_command, "PIECE_BYTES", 1_000)


FORMS: dict[str, tuple[list[str], bytes, int]] = {
    "pieces": ([], LINES, -(-len(LINES) // 1_000)),
    "lines": (["--lines"], LINES, 1_001),
    "records": (["--length-prefixed"], RECORDS, 200),
}


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("form", FORMS)
def test_a_repeat_appends_what_lacks_wherever_the_first_run_ended(
    form: str, command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, data, count = FORMS[form]
    file = tmp_path / "input"
    file.write_bytes(data)
    real = Writer.append
    for ends_at in (0, 1, 5):
        name = f"s{ends_at}"
        calls = 0

        def dying(writer: Writer, given: bytes, *, sequence: int, last: int = ends_at) -> int:
            nonlocal calls
            calls += 1
            if calls > last:
                raise siltstone.LogError("gone")
            return real(writer, given, sequence=sequence)

        line = ["append", name, str(file), "--create", "--writer", "w", "--sequence", "7", *options]
        with monkeypatch.context() as patch:
            patch.setattr(Writer, "append", dying)
            failed = command(*line)
        assert failed.code == 1
        with siltstone.open(folder) as store:
            durable = store.segment(name).info().length
        assert (f"only the first {durable} bytes were appended" in failed.err) is (ends_at > 0)
        again = command(*line, "--json").values[0]
        assert (again["length"], again["end"], again["repeated"], again["next_sequence"]) == (
            len(data),
            len(data),
            durable,
            7 + count,
        )
        third = command(*line)
        assert third.code == 0
        assert third.out.split()[1:] == [str(len(data)), str(7 + count)]
        with siltstone.open(folder) as store:
            assert store.segment(name).read(0, 2 * len(data)) == data


@pytest.mark.slow
def test_a_repeat_of_one_append_tells_where_it_is(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(LINES)
    command("append", "a", str(file), "--create")
    for options in ([], ["--lines"]):
        line = ["append", "a", str(file), "--writer", f"w{len(options)}", "--sequence", "0"]
        first, again = command(*line, *options), command(*line, *options)
        assert first.code == again.code == 0
        assert first.out == again.out
    assert command("stat", "a", "--json").values[0]["length"] == 3 * len(LINES)


@pytest.mark.slow
def test_a_repeat_from_a_later_record_continues(command: Command, tmp_path: Path) -> None:
    whole, rest, more = tmp_path / "whole", tmp_path / "rest", tmp_path / "more"
    whole.write_bytes(b"0\n1\n2\n")
    rest.write_bytes(b"2\n3\n")
    more.write_bytes(b"4\n")
    line = ["append", "a", "--create", "--lines", "--writer", "w", "--sequence"]
    assert command(*line, "0", str(whole)).out == "0 6 3\n"
    assert command(*line, "2", str(rest)).out == "4 4 4\n"
    assert command(*line, "9", str(more)).out == "8 2 10\n"
    assert command("cat", "a").out == "0\n1\n2\n3\n4\n"


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--lines"]])
def test_another_input_under_the_same_sequences_is_refused(
    command: Command, tmp_path: Path, options: list[str]
) -> None:
    file, other, longer = tmp_path / "input", tmp_path / "other", tmp_path / "longer"
    file.write_bytes(b"one\ntwo\n")
    other.write_bytes(b"one\nTWO\nthree\n")
    longer.write_bytes(b"".join([b"x\n"] * 10))
    line = ["append", "a", "--create", "--writer", "w", *options]
    assert command(*line, "--sequence", "3", str(file)).code == 0
    refused = command(*line, "--sequence", "3", str(other))
    assert (refused.code, refused.out) == (4, "")
    assert "other bytes" in refused.err
    assert "last_sequence=" in refused.err
    assert command(*line, "--sequence", "20", str(longer)).code == 0
    older = command(*line, "--sequence", "3", str(file))
    assert older.code == 4
    assert "more than this input" in older.err
    assert command("cat", "a").out == "one\ntwo\n" + "x\n" * 10


@pytest.mark.slow
def test_a_repeat_is_answered_when_the_segment_is_sealed(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(LINES)
    line = ["append", "a", str(file), "--lines", "--writer", "w", "--sequence", "0"]
    command("create", "a")
    first = command(*line)
    command("seal", "a")
    assert command(*line).out == first.out
    assert command("append", "a", str(file), "--lines").code == 4


@pytest.mark.slow
def test_an_input_that_ends_within_a_record_is_told(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(prefixed(b"whole", b"torn")[:-1])
    ran = command("append", "a", str(file), "--create", "--length-prefixed", "--json")
    assert ran.code == 2
    assert "only the first 9 bytes were appended: the input ends within a record" in ran.err
    assert ran.values == [{"segment": "a", "offset": 0, "length": 9, "complete": False}]
    assert command("cat", "a").out == "\0\0\0\x05whole"


@pytest.mark.slow
def test_an_input_of_no_byte_appends_nothing(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"")
    command("append", "a", str(file), "--create")
    for options in ([], ["--lines"], ["--length-prefixed"]):
        assert command("append", "a", str(file), *options).out == "0 0\n"
    assert command("append", "a", str(file), "--writer", "w", "--sequence", "3").out == "0 0 3\n"


def test_the_name_of_a_writer_and_its_sequence_go_together(command: Command) -> None:
    for options in (["--writer", "w"], ["--sequence", "1"]):
        ran = command("append", "a", "/dev/null", *options)
        assert ran.code == 2
        assert "go together" in ran.err


class Stopped(io.FileIO):
    """A file whose reader is interrupted in its third read."""

    reads = 0

    def read(self, size: int | None = -1, /) -> Any:
        self.reads += 1
        if self.reads == 3:
            raise KeyboardInterrupt
        return super().read(1_000)


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--lines"], ["--writer", "w", "--sequence", "0"]])
def test_an_interrupt_tells_what_is_durable_and_where(
    command: Command,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
) -> None:
    file = tmp_path / "input"
    file.write_bytes(LINES)
    with siltstone.open(folder) as store:
        store.create("a").append(b"before")
    line = ["append", "a", str(file), *options, "--json"]
    with monkeypatch.context() as patch:
        patch.setattr(append_command, "_input", Stopped)
        patch.setattr(append_command, "PIECE_BYTES", 1_000)
        ran = command(*line)
    assert ran.code == 130
    (told,) = ran.values
    with siltstone.open(folder) as store:
        length = store.segment("a").info().length
    assert 6 < length < 2_010
    assert (told["offset"], told["length"], told["complete"]) == (6, length - 6, False)
    hint = "; the same command continues where it stopped" if "--writer" in options else ""
    assert ran.err == (
        f"siltstone: interrupted; the first {length - 6} bytes are durable, "
        f"from offset 6 up to {length}{hint}\n"
    )


def test_an_interrupt_before_anything_is_durable_says_so(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Segment, "append_from", interrupted)
    ran = command("append", "a", "/dev/null", "--create")
    assert (ran.code, ran.err) == (130, "siltstone: interrupted; nothing was appended\n")


@pytest.mark.slow
def test_lines_on_a_pipe_are_durable_soon_after_they_arrive(
    process: Callable[..., subprocess.Popen[bytes]], folder: Path
) -> None:
    with siltstone.open(folder) as store:
        store.create("a")
    with process("append", "a", "--lines", stdin=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"one\ntwo\nhal")
        running.stdin.flush()
        with siltstone.open(folder, read_only=True) as reader:
            followed = reader.segment("a").follow()
            assert next(followed) == b"one\ntwo\n"
            running.stdin.write(b"f\n")
            running.stdin.flush()
            assert next(followed) == b"half\n"
            followed.close()  # type: ignore[attr-defined]
        running.send_signal(signal.SIGTERM)
        assert running.wait(120) == 143
        assert running.stderr is not None
        said = b"the first 13 bytes are durable, from offset 0 up to 13"
        assert running.stderr.read() == b"siltstone: terminated; " + said + b"\n"
