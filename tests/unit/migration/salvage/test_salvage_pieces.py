"""Salvage without a store: names of folders, pieces over pieces, and the verdicts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.chunk_names import data_chunk, segment_folder, shared_chunk
from siltstone.migration.salvage.chunk_files import chunk_file, name_of_folder
from siltstone.migration.salvage.pieces import ChunkPiece, gaps, painted, runs
from siltstone.migration.salvage.report import MissingBytes, Verdict
from siltstone.migration.salvage.verdicts import Evidence, Proof, judged, target_name


def piece(offset: int, length: int, chunk: str = "c", *, proven: bool = False) -> ChunkPiece:
    return ChunkPiece(
        offset=offset,
        length=length,
        chunk=chunk,
        chunk_offset=0,
        chunk_length=length,
        sums=(1,) if proven else (),
    )


@pytest.mark.slow
@given(st.text(min_size=1, max_size=300).filter(lambda name: "\0" not in name))
def test_a_folder_gives_its_name_back_or_none(name: str) -> None:
    try:
        folder = segment_folder(name)
    except UnicodeEncodeError:
        return
    assert name_of_folder(folder) in (name, None)


@pytest.mark.parametrize("name", ["a", "a/b/c", "x/ž %&=~", "", "/", "a//b", "_", "a_20b"])
def test_short_names_come_back(name: str) -> None:
    assert name_of_folder(segment_folder(name)) == name


@pytest.mark.parametrize("name", ["n" * 121, "a/b/c/d/e/f/g", "ž" * 50])
def test_hashed_names_do_not(name: str) -> None:
    assert name_of_folder(segment_folder(name)) is None


def test_a_chunk_tells_its_segment_epoch_and_place() -> None:
    found = chunk_file(data_chunk(3, 7, "a/b", 50, 0x1F), 9)
    assert (found.folder, found.start, found.age) == ("a/b", 50, (7, 0x1F))
    assert chunk_file(shared_chunk(3, 7, 2, 5), 9).folder is None
    assert chunk_file("import/c0/0000000000000021/00000-0-c29e583e073f87a6", 9).folder is None
    assert chunk_file("data/c0/readme", 9).folder is None


@pytest.mark.parametrize(
    ("pieces", "seen", "doubts"),
    [
        ([(0, 10, "a"), (10, 5, "b")], [(0, 10, "a"), (10, 5, "b")], 0),
        # Its end was never committed: the next owner began before it.
        ([(0, 10, "a"), (6, 9, "b")], [(0, 6, "a"), (6, 9, "b")], 0),
        # A merge of both.
        ([(0, 5, "a"), (5, 5, "b"), (0, 10, "m")], [(0, 10, "m")], 0),
        # A merge that died, or the end of the segment: that cannot be known.
        ([(0, 10, "a"), (2, 3, "b")], [(0, 2, "a"), (2, 3, "b"), (5, 5, "a")], 1),
        (
            [(0, 4, "a"), (4, 4, "b"), (8, 4, "c"), (2, 8, "m")],
            [(0, 2, "a"), (2, 8, "m"), (10, 2, "c")],
            1,
        ),
    ],
)
def test_a_later_piece_counts_from_its_first_byte_to_its_last(
    pieces: list[tuple[int, int, str]], seen: list[tuple[int, int, str]], doubts: int
) -> None:
    found, why = painted(piece(*one) for one in pieces)
    assert [(one.offset, one.length, one.chunk) for one in found] == seen
    assert len(why) == doubts
    by_name = {one[2]: one for one in pieces}
    assert all(one.chunk_offset == one.offset - by_name[one.chunk][0] for one in found)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=12))
def test_pieces_over_pieces_are_as_bytes_over_bytes(ranges: list[tuple[int, int]]) -> None:
    truth: dict[int, tuple[str, int]] = {}
    for number, (offset, length) in enumerate(ranges):
        truth.update({offset + at: (str(number), at) for at in range(length)})
    found, _ = painted(piece(*one, str(number)) for number, one in enumerate(ranges))
    shown = {
        one.offset + at: (one.chunk, one.chunk_offset + at)
        for one in found
        for at in range(one.length)
    }
    assert shown == truth
    assert len(shown) == sum(one.length for one in found)
    missing = {at for begin, stop in gaps(found, 0, 70) for at in range(begin, stop)}
    assert missing == set(range(70)) - set(truth)
    groups = runs(found)
    assert all(a[-1].end < b[0].offset for a, b in pairwise(groups))


def test_without_a_checkpoint_nothing_is_exact() -> None:
    whole = judged(Evidence(name="a", container=0, named=[piece(0, 5), piece(5, 5)]))
    assert (whole.verdict, whole.proven, whole.missing) == (Verdict.PREFIX, None, ())
    gap = judged(Evidence(name="a", container=0, named=[piece(0, 5), piece(7, 5)]))
    assert (gap.verdict, gap.ranges) == (Verdict.GUESSED, [(0, 5), (7, 5)])
    assert [(one.offset, one.length) for one in gap.missing] == [(5, 2)]
    assert gap.why == ("bytes between others are missing",)
    late = judged(Evidence(name="a", container=0, named=[piece(3, 5)]))
    assert (late.verdict, late.start_offset) == (Verdict.GUESSED, 3)
    assert late.why == ("nothing tells whether the bytes below 3 were truncated or are missing",)


def proof(
    *pieces: ChunkPiece, start: int = 0, length: int = 10, sealed: int | None = None
) -> Proof:
    lacking = tuple(
        MissingBytes(offset=begin, length=stop - begin, reason="gone")
        for begin, stop in gaps(pieces, start, length)
    )
    return Proof(
        start_offset=start, length=length, sealed_length=sealed, pieces=pieces, missing=lacking
    )


def test_a_checkpoint_proves_bytes_and_their_end() -> None:
    whole = judged(Evidence(name="a", container=0, proof=proof(piece(0, 10, proven=True))))
    assert (whole.verdict, whole.proven, whole.why) == (Verdict.EXACT, 10, ())
    empty = judged(Evidence(name="a", container=0, proof=proof(start=4, length=4)))
    assert (empty.verdict, len(empty.targets)) == (Verdict.EXACT, 1)
    begun = judged(
        Evidence(name="a", container=0, proof=proof(piece(0, 10, proven=True), sealed=12))
    )
    assert (begun.verdict, begun.missing[0].length) == (Verdict.PREFIX, 2)
    cut = judged(Evidence(name="a", container=0, proof=proof(piece(0, 6, proven=True))))
    assert (cut.verdict, cut.missing[0].reason) == (Verdict.PREFIX, "gone")
    gone = judged(Evidence(name="a", container=0, proof=proof()))
    assert (gone.verdict, gone.targets) == (Verdict.GUESSED, ())
    hole = judged(Evidence(name="a", container=0, proof=proof(piece(3, 7, proven=True))))
    assert (hole.verdict, hole.why) == (Verdict.GUESSED, ("its first bytes are missing",))


def test_chunks_after_what_is_proven_make_a_prefix_and_those_over_it_a_guess() -> None:
    lost = judged(
        Evidence(
            name="a",
            container=0,
            proof=proof(piece(0, 4, "p", proven=True)),
            named=[piece(4, 6, "n")],
        )
    )
    assert (lost.verdict, lost.end) == (Verdict.PREFIX, 10)
    proven = proof(piece(0, 10, "p", proven=True))
    following = Evidence(name="a", container=0, proof=proven, named=[piece(10, 5, "n")])
    found = judged(following)
    assert (found.verdict, found.proven, found.end) == (Verdict.PREFIX, 10, 15)
    over = Evidence(name="a", container=0, proof=proven, named=[piece(5, 10, "n")])
    found = judged(over)
    assert (found.verdict, found.ranges) == (Verdict.GUESSED, [(0, 15)])
    assert [one.chunk for one in found.targets[0].pieces] == ["p", "n"]
    inside = Evidence(name="a", container=0, proof=proven, named=[piece(2, 3, "n")])
    assert judged(inside).verdict is Verdict.EXACT


def test_names_of_targets_are_never_given_twice() -> None:
    taken: set[str] = set()
    names = [target_name("a", None, taken), target_name("a", None, taken)]
    names += [target_name("a", 5, taken), target_name("a@" + "5".zfill(20), None, taken)]
    assert len(set(names)) == 4
    assert len(target_name("ž" * 600, 2**63, taken).encode()) <= 1_024
