"""Random statements of SQLite on databases in volumes, and on a plain one beside them.

Each statement has the same result, or fails alike; after it the database in the volume is whole.
Between statements the volume is pushed, another client that pulls has the same rows, the client is
opened again, and connections come and go.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from siltstone.volumes.sqlite import connect
from tests.support.soak import share_of
from tests.support.volumes.synced_world import SyncedWorld

TABLES = ("a", "b")
tables = st.sampled_from(TABLES)
keys = st.integers(1, 60)
texts = st.sampled_from(
    [
        "''",
        "'x'",
        "replace(hex(zeroblob(500)), '0', 'l')",
        "replace(hex(zeroblob(10000)), '0', 'v')",
    ]
)
wheres = st.sampled_from(["", "where id % 3 = 0", "where id > 20", "where length(text) > 100"])

statements = st.one_of(
    st.builds("insert or replace into {}(id, text) values ({}, {})".format, tables, keys, texts),
    st.builds("insert into {}(text) select text || id from {} {}".format, tables, tables, wheres),
    st.builds("update {} set text = {} {}".format, tables, texts, wheres),
    st.builds("delete from {} {}".format, tables, wheres),
    st.builds("select count(*), sum(length(text)), max(id) from {} {}".format, tables, wheres),
    st.builds("select id, length(text) from {} {} order by text, id".format, tables, wheres),
    st.builds("insert into {}(id, text) values ({}, 'twice')".format, tables, keys),
    st.sampled_from(
        [
            "begin",
            "begin immediate",
            "commit",
            "rollback",
            "savepoint s",
            "rollback to s",
            "release s",
            "vacuum",
            "pragma incremental_vacuum(2)",
            "reindex",
            "analyze",
            "drop index if exists of_a",
            "create index if not exists of_a on a(text)",
            "create table if not exists c(x)",
            "drop table if exists c",
            "pragma cache_size = 3",
            "pragma cache_size = 2000",
            "pragma synchronous = off",
            "pragma user_version = 7",
            "select * from missing",
        ]
    ),
)


class SqliteMachine(RuleBasedStateMachine):
    """The model: a database in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="siltstone-sqlite-"))
        self.world = SyncedWorld(self.folder)

    @initialize(vacuum=st.sampled_from(["none", "full", "incremental"]))
    def begin(self, vacuum: str) -> None:
        self.client = self.world.open("a")
        self.client.create("v")
        self.db = connect(self.client.volume("v"))
        self.plain = apsw.Connection(":memory:")
        self.do(f"pragma auto_vacuum = {vacuum}")
        for table in TABLES:
            self.do(f"create table {table}(id integer primary key, text)")

    @rule(several=st.lists(statements, min_size=1, max_size=6))
    def change(self, several: list[str]) -> None:
        for statement in several:
            self.do(statement)

    def do(self, statement: str) -> None:
        expected, found = told(self.plain, statement), told(self.db, statement)
        assert found == expected, statement
        assert self.db.in_transaction == self.plain.in_transaction, statement
        assert self.db.total_changes() == self.plain.total_changes(), statement

    @precondition(lambda self: not self.plain.in_transaction)
    @rule()
    def look_from_elsewhere(self) -> None:
        """Another connection, and another client that pulled, have the same rows."""
        other = connect(self.client.volume("v"))
        assert rows(other) == rows(self.plain)
        other.close()
        self.client.volume("v").push()
        with self.world.open("b") as client:
            names = client.names()
            volume = client.volume("v") if names else client.clone("v", self.log)
            volume.pull()
            theirs = connect(volume)
            assert rows(theirs) == rows(self.plain)
            assert told(theirs, "pragma integrity_check") == [("ok",)]
            theirs.close()

    @property
    def log(self) -> str:
        return self.client.volume("v").log

    @precondition(lambda self: not self.plain.in_transaction)
    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.client.close()
        self.client = self.world.open("a")
        self.db = connect(self.client.volume("v"))
        self.db.execute(f"pragma cache_size = {self.plain.pragma('cache_size')}")
        plain, self.plain = self.plain, apsw.Connection(":memory:")
        with self.plain.backup("main", plain, "main") as backup:
            while not backup.done:
                backup.step()
        plain.close()

    @invariant()
    def is_whole(self) -> None:
        if hasattr(self, "db"):
            assert told(self.db, "pragma integrity_check") == [("ok",)]
            assert rows(self.db) == rows(self.plain)

    def teardown(self) -> None:
        for name in ("db", "plain", "client"):
            if hasattr(self, name):
                getattr(self, name).close()
        shutil.rmtree(self.folder)


def told(db: apsw.Connection, statement: str) -> Any:
    """Rows of a statement, or the kind of error."""
    try:
        return db.execute(statement).fetchall()
    except apsw.Error as error:
        return type(error)


def rows(db: apsw.Connection) -> Any:
    return [told(db, f"select id, text from {table} order by id") for table in TABLES]


def play(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        SqliteMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_sqlite_in_a_volume_is_sqlite() -> None:
    play(30, 20)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_sqlite_in_a_volume_is_sqlite_for_long() -> None:
    play(share_of(1_000), 40)
