"""TLS, credentials and rights on a broker that heeds them: what is wrong is named, and soon.

The owner has the rights that ``docs/tier1/kafka.md`` names, and no others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from services.certificates import Authority
from services.kafka_secured import SecuredKafka
from siltstone.core.errors import CapabilityError, LogError, Outcome, SiltstoneError
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from siltstone.tier1.kafka.presence import this_process
from tests.conftest import KAFKA_PASSWORDS
from tests.faults.kafka.log_case import LINEAGE, put
from tests.support.services.kafka_services import CONTAINER, Outside, new_topic, settings_of

SOON_S = 30.0
"""Long before the deadline, also on a machine that is busy."""
DEADLINE_S = 60.0
MANY = 5000
"""Until the broker heeds what changed."""
READS = (ACLOperation.READ, ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS)
RIGHTS = {
    "owner": (*READS, ACLOperation.WRITE, ACLOperation.DELETE, ACLOperation.CREATE),
    "reader": READS,
}


def truncate_often(log: KafkaFencedLog) -> None:
    for _ in range(MANY):
        put(log, b"c")
        log.truncate(log.end() - 1)


class SecuredCase:
    """One topic, whose owner and reader have their rights."""

    @pytest.fixture(autouse=True)
    def _topic(self, kafka_tls: SecuredKafka, authority: Authority) -> Iterator[None]:
        self.broker = kafka_tls
        self.bundle = authority.bundle
        self.topic = new_topic()
        self.outside = Outside(kafka_tls.endpoint, self.topic)
        self._opened: list[KafkaFencedLog] = []
        for user, operations in RIGHTS.items():
            self.grant(user, operations)
        self.grant("owner", [ACLOperation.READ], kind=ResourceType.GROUP)
        yield
        for log in self._opened:
            log.abandon()

    def _rights(
        self, user: str, operations: Sequence[ACLOperation], kind: ResourceType
    ) -> list[ACL]:
        pattern = ResourcePattern(kind, self.topic, ACLResourcePatternType.PREFIXED)
        return [
            ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, pattern)
            for operation in operations
        ]

    def grant(
        self,
        user: str,
        operations: Sequence[ACLOperation],
        *,
        kind: ResourceType = ResourceType.TOPIC,
    ) -> None:
        with self.outside.admin() as admin:
            made = admin.create_acls(self._rights(user, operations, kind))
        assert not made["failed"]

    def revoke(
        self, user: str, operation: ACLOperation, *, kind: ResourceType = ResourceType.TOPIC
    ) -> None:
        pattern = ResourcePatternFilter(kind, self.topic, ACLResourcePatternType.PREFIXED)
        which = ACLFilter(f"User:{user}", None, operation, ACLPermissionType.ALLOW, pattern)
        with self.outside.admin() as admin:
            admin.delete_acls([which])

    def handle(self, *, port: str = "GOOD", user: str | None = "owner", **more: Any) -> Any:
        options: dict[str, Any] = {
            "servers": [self.broker.secured(port)],
            "insecure": False,
            "ca_bundle": self.bundle,
            "username": user,
            "password": None if user is None else KAFKA_PASSWORDS.get(user, "canary-unknown"),
            "deadline_s": DEADLINE_S,
        }
        settings = settings_of("unused:1", self.topic, **(options | more))
        log = KafkaFencedLog(settings, CONTAINER)
        self._opened.append(log)
        return log

    def claim(self, *, new: bool = False, **more: Any) -> KafkaFencedLog:
        log: KafkaFencedLog = self.handle(**more)
        log.claim(lineage=LINEAGE, new=new, above=0, takeover=True, owner="owner")
        return log

    def refused(self, match: str, kind: type[SiltstoneError] = CapabilityError, **more: Any) -> str:
        """Claim, and see that this is refused soon, with a reason and without a password."""
        begun = time.monotonic()
        with pytest.raises(kind, match=match) as caught:
            self.claim(new=True, **more)
        assert time.monotonic() - begun < SOON_S
        told = str(caught.value) + repr(caught.value)
        assert "canary" not in told
        return told


class TestCredentials(SecuredCase):
    @pytest.mark.parametrize("mechanism", ["plain", "scram-sha-512"])
    def test_an_owner_needs_no_other_rights_than_those_that_are_named(
        self, mechanism: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        log = self.claim(new=True, mechanism=mechanism)
        put(log, b"a", b"b", b"c")
        log.truncate(2)
        # It shows that it lives, and hears whether others do.
        other = self.handle(mechanism=mechanism)
        elsewhere = replace(this_process(), host=b"another machine!")
        other._claimant = replace(other._claimant, here=elsewhere)
        assert other.holder().alive
        reader = self.handle(user="reader", mechanism=mechanism).open_read()
        assert [frame.body for frame in reader.read(2)] == [b"c"]
        reader.close()
        log.close()
        assert put(self.claim(mechanism=mechanism), b"d") == [4]
        assert not [each for each in caplog.records if "others do not see" in each.message]

    @pytest.mark.parametrize("mechanism", ["plain", "scram-sha-512"])
    def test_wrong_credentials(self, mechanism: str) -> None:
        advice = "SaslAuthenticationFailed.*look at username, password and mechanism"
        self.refused(advice, mechanism=mechanism, password="canary-wrong")
        self.refused(advice, mechanism=mechanism, user="nobody")

    def test_a_mechanism_that_the_broker_does_not_have(self) -> None:
        self.refused("UnsupportedSaslMechanism.*look at mechanism", mechanism="scram-sha-256")

    def test_a_look_is_told_as_well(self) -> None:
        log = self.handle(password="canary-wrong")
        begun = time.monotonic()
        for call in (log.holder, log.newest_epoch, log.open_read().end):
            with pytest.raises(LogError, match="look at username"):
                call()
        assert time.monotonic() - begun < SOON_S

    def test_a_port_that_takes_no_credentials(self) -> None:
        self.refused(
            "takes no credentials", servers=[self.broker.endpoint], insecure=True, ca_bundle=None
        )

    def test_no_credentials_where_some_are_needed(self) -> None:
        with pytest.raises(LogError, match="topic="):
            self.claim(new=True, user=None, deadline_s=0.5)


class TestCertificates(SecuredCase):
    def test_an_authority_that_is_not_trusted(self, tmp_path: Path) -> None:
        self.refused("not accepted.*look at ca_bundle", ca_bundle=Authority(tmp_path).bundle)
        self.refused("not accepted.*look at ca_bundle", ca_bundle=None)

    def test_a_certificate_of_another_host(self) -> None:
        self.refused("not valid for '127.0.0.1'", port="ELSEWHERE")

    def test_a_certificate_that_has_expired(self) -> None:
        self.refused("certificate has expired", port="EXPIRED")

    def test_one_good_broker_is_enough(self) -> None:
        names = ("ELSEWHERE", "EXPIRED", "GOOD")
        assert put(self.claim(new=True, servers=[*map(self.broker.secured, names)]), b"a") == [0]

    def test_a_bundle_that_holds_nothing(self, tmp_path: Path) -> None:
        bundle = tmp_path / "bundle.pem"
        bundle.write_text("nothing\n")
        self.refused("certificates cannot be used", ca_bundle=bundle)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"insecure": True, "ca_bundle": None},
            {"servers": ["plain"]},
        ],
        ids=["no TLS where it is needed", "TLS where there is none"],
    )
    def test_one_side_speaks_tls_and_the_other_does_not(self, wrong: dict[str, Any]) -> None:
        if wrong.get("servers"):
            wrong = {"servers": [self.broker.endpoint]}
        with pytest.raises(LogError, match="reason="):
            self.claim(new=True, deadline_s=0.5, **wrong)


class TestRights(SecuredCase):
    def test_a_stranger_may_not_claim_and_leaves_no_trace(self) -> None:
        put(self.claim(new=True), b"a")
        before = self.outside.records()
        self.refused("needs READ, WRITE, DESCRIBE", user="stranger")
        assert self.outside.records() == before

    def test_a_reader_may_not_claim_and_does_no_harm(self) -> None:
        log = self.claim(new=True)
        put(log, b"a")
        before = self.outside.records()
        with pytest.raises(CapabilityError, match="needs WRITE"):
            self.claim(user="reader")
        assert self.outside.records() == before
        assert put(log, b"b") == [1]

    def test_an_owner_whose_right_to_write_is_taken_loses_nothing(self) -> None:
        log = self.claim(new=True)
        put(log, b"a")
        self.revoke("owner", ACLOperation.WRITE)
        begun = time.monotonic()
        with pytest.raises(LogError, match="needs READ, WRITE") as caught:
            put(log, *[b"a"] * MANY)
        assert time.monotonic() - begun < SOON_S
        assert caught.value.outcome is Outcome.UNKNOWN
        self.grant("owner", [ACLOperation.WRITE])
        after = self.claim()
        assert {frame.body for frame in after.read(0)} == {b"a"}
        put(after, b"b")

    def test_an_owner_that_may_not_delete_is_told_when_it_truncates(self) -> None:
        log = self.claim(new=True)
        put(log, b"a", b"b")
        self.revoke("owner", ACLOperation.DELETE)
        with pytest.raises(LogError, match="DELETE on the topic"):
            truncate_often(log)
        self.grant("owner", [ACLOperation.DELETE])
        assert self.claim().end() >= 3

    def test_without_the_right_to_the_group_an_owner_works_and_says_what_is_missing(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.revoke("owner", ACLOperation.READ, kind=ResourceType.GROUP)
        caplog.set_level(logging.WARNING)
        log = self.claim(new=True)
        put(log, b"a")
        until = time.monotonic() + SOON_S
        while "others do not see" not in caplog.text and time.monotonic() < until:
            time.sleep(0.01)
        assert "GroupAuthorizationFailed" in caplog.text
        other = self.handle()
        elsewhere = replace(this_process(), host=b"another machine!")
        other._claimant = replace(other._claimant, here=elsewhere)
        with pytest.raises(CapabilityError, match="READ on the consumer group"):
            other.claim(lineage=LINEAGE, new=False, above=0, takeover=False, owner="b")
        assert put(log, b"b") == [1]
