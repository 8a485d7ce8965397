"""A database of SQLite in a volume: transactions are commits, and connections notice changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkUnavailableError, CorruptDataError
from siltstone.volumes import ConcurrentWriteError, Volume, VolumeClient
from siltstone.volumes.settings import ClientSettings, Durability
from siltstone.volumes.sqlite import attach, connect
from tests.support.volumes.counted_place import CountedPlace

SETTINGS = ClientSettings(place="memory", durability=Durability.PROCESS)


class Pair:
    """Two clients of one place, with a database in a volume."""

    def __init__(self, folder: Path) -> None:
        self.bucket = Bucket()
        self.places = (CountedPlace(self.bucket), CountedPlace(self.bucket))
        self.clients = (
            VolumeClient(folder / "a", SETTINGS, lambda: self.places[0], SystemEnvironment()),
            VolumeClient(folder / "b", SETTINGS, lambda: self.places[1], SystemEnvironment()),
        )
        self.volume = self.clients[0].create("v")
        self.db = connect(self.volume)
        self.db.execute("create table t(id integer primary key, text); create index i on t(text)")

    def clone(self) -> Volume:
        self.volume.push()
        return self.clients[1].clone("v", self.volume.log)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.db.close()
    for client in made.clients:
        client.close()


def insert(db: apsw.Connection, count: int, text: str = "text") -> None:
    with db:
        db.executemany(
            "insert into t(text) values (?)", [(f"{text} {n}" * 9,) for n in range(count)]
        )


def count(db: apsw.Connection) -> int:
    found = db.execute("select count(*) from t").fetchall()[0][0]
    assert isinstance(found, int)
    return found


def check(db: apsw.Connection) -> None:
    assert db.execute("pragma integrity_check").fetchall() == [("ok",)]


def test_a_transaction_is_one_commit_and_a_rollback_none(pair: Pair) -> None:
    before = pair.volume.info().local
    insert(pair.db, 100)
    assert pair.volume.info().local == before + 1
    pair.db.execute("begin; delete from t; rollback")
    assert pair.volume.info().local == before + 1
    pair.db.execute("begin; savepoint a; delete from t; rollback to a; release a; commit")
    assert count(pair.db) == 100
    check(pair.db)


def test_reading_is_no_commit(pair: Pair) -> None:
    before = pair.volume.info().local
    with pair.db:
        assert count(pair.db) == 0
    pair.db.execute("pragma integrity_check; pragma optimize")
    assert pair.volume.info().local == before


@pytest.mark.parametrize("end", ["rollback", "commit"])
def test_a_transaction_that_does_not_fit_into_the_cache_is_whole_or_absent(
    pair: Pair, end: str
) -> None:
    insert(pair.db, 10)
    before = pair.volume.info().local
    pair.db.execute("pragma cache_size=5; begin")
    for number in range(2_000):
        pair.db.execute("insert into t(text) values (?)", (f"spilled {number}" * 20,))
    pair.db.execute("delete from t where id < 5")
    pair.db.execute(end)
    is_there = end == "commit"
    assert pair.volume.info().local == before + is_there
    assert count(pair.db) == (2_006 if is_there else 10)
    check(pair.db)
    other = connect(pair.volume)
    assert count(other) == count(pair.db)
    other.close()


def test_a_vacuum_makes_the_volume_smaller_in_one_commit(pair: Pair) -> None:
    insert(pair.db, 2_000)
    pair.db.execute("delete from t where id > 10")
    before = pair.volume.info()
    pair.db.execute("vacuum")
    after = pair.volume.info()
    assert (after.local, after.pages < before.pages / 5) == (before.local + 1, True)
    assert count(pair.db) == 10
    check(pair.db)


def test_a_second_writer_is_busy_and_a_stale_one_too(pair: Pair) -> None:
    other = connect(pair.volume)
    pair.db.execute("begin immediate")
    with pytest.raises(apsw.BusyError):
        other.execute("insert into t(text) values ('x')")
    pair.db.execute("rollback; begin")
    assert count(pair.db) == 0
    insert(other, 1)
    assert count(pair.db) == 0, "its snapshot"
    with pytest.raises(apsw.BusyError):
        pair.db.execute("insert into t(text) values ('x')")
    pair.db.execute("rollback")
    insert(pair.db, 1)
    assert (count(pair.db), count(other)) == (2, 2)
    other.close()


def test_a_commit_meets_one_that_was_made_without_sqlite(pair: Pair) -> None:
    pair.db.execute("begin; insert into t(text) values ('x')")
    with pair.volume.writer() as writer:
        writer.truncate(writer.page_count + 1)
        writer.commit()
    with pytest.raises(apsw.BusyError) as caught:
        pair.db.execute("commit")
    assert isinstance(caught.value.__cause__ or caught.value, apsw.BusyError | ConcurrentWriteError)
    if pair.db.in_transaction:
        pair.db.execute("rollback")
    assert count(pair.db) == 0
    check(pair.db)


def test_open_connections_notice_pulls_and_resets(pair: Pair) -> None:
    insert(pair.db, 3)
    clone = pair.clone()
    theirs = connect(clone)
    assert count(theirs) == 3
    insert(theirs, 4)
    clone.push()
    assert count(pair.db) == 3
    pair.volume.pull()
    assert count(pair.db) == 7
    insert(theirs, 1)
    clone.push()
    insert(pair.db, 20)
    pair.volume.reset()
    assert count(pair.db) == 8
    check(pair.db)
    check(theirs)
    theirs.close()


def test_a_query_fetches_what_it_reads(pair: Pair) -> None:
    insert(pair.db, 20_000)
    clone = pair.clone()
    pair.places[1].asked.clear()
    theirs = connect(clone)
    query = theirs.execute("select length(text) from t where id = 7000")
    assert query.fetchall() == [(len("text 6999" * 9),)]
    fetched = [name for verb, name in pair.places[1].asked if "/bundles/" in name]
    slabs = clone.hydrate() + len(fetched)
    assert len(fetched) < slabs / 5
    pair.places[1].is_cut_off = True
    assert count(theirs) == 20_000
    check(theirs)
    theirs.close()


def test_a_page_that_cannot_be_fetched_fails_its_statement_and_says_why(pair: Pair) -> None:
    insert(pair.db, 5_000)
    clone = pair.clone()
    theirs = connect(clone)
    pair.places[1].is_cut_off = True
    with pytest.raises(ChunkUnavailableError):
        theirs.execute("select count(*) from t").fetchall()
    pair.places[1].is_cut_off = False
    for chunk in (each for key, each in pair.bucket.chunks.items() if b"/bundles/" in key):
        chunk.content[-9] ^= 1
    with pytest.raises(CorruptDataError):
        theirs.execute("select count(*) from t").fetchall()
    theirs.close()


def test_two_volumes_are_attached_and_joined(pair: Pair) -> None:
    other = pair.clients[0].create("other")
    attach(pair.db, other, "other")
    pair.db.execute("create table other.u(id, more)")
    with pair.db:
        pair.db.execute("insert into t(text) values ('a')")
        pair.db.execute("insert into other.u values (1, 'b')")
    joined = pair.db.execute("select text, more from t join other.u using (id)").fetchall()
    assert joined == [("a", "b")]
    assert other.info().local == 2
    check(pair.db)


def test_a_connection_that_only_reads_cannot_write(pair: Pair) -> None:
    reader = connect(pair.volume, read_only=True)
    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("insert into t(text) values ('x')")
    assert count(reader) == 0
    reader.close()


@pytest.mark.parametrize(
    "statement",
    ["pragma journal_mode=wal", "pragma locking_mode=exclusive", "pragma page_size=8192"],
)
def test_what_a_volume_cannot_do_is_refused(pair: Pair, statement: str) -> None:
    with pytest.raises(apsw.SQLError, match="volume"):
        pair.db.execute(statement)
    insert(pair.db, 1)
    check(pair.db)


def test_pragmas_sync_the_volume(pair: Pair) -> None:
    def ask(name: str) -> object:
        return pair.db.pragma(f"siltstone_{name}")

    assert ask("status") == "2 +2 r_"
    assert ask("push") == "pushed"
    assert ask("push") == "nothing to push"
    assert ask("status") == "2 r1"
    assert ask("log") == pair.volume.log
    assert (ask("fetch"), ask("pull"), ask("sync")) == ("0 to pull", "nothing to pull", "nothing")
    assert (ask("recover"), ask("hydrate")) == ("nothing to recover", "0 slabs fetched")
    assert ask("reset") == "reset to 1"
    with pytest.raises(apsw.SQLError, match="siltstone_push"):
        ask("unknown")


def test_pages_that_are_no_database_are_told(pair: Pair) -> None:
    other = pair.clients[0].create("other")
    with other.writer() as writer:
        writer.write(1, b"no database".ljust(4096, b"\0"))
        writer.commit()
    with pytest.raises(apsw.NotADBError):
        connect(other).execute("select * from sqlite_schema").fetchall()


def test_a_file_of_volumes_is_opened_by_connect_alone() -> None:
    with pytest.raises(apsw.CantOpenError):
        apsw.Connection("anything", vfs="siltstone-volumes")
