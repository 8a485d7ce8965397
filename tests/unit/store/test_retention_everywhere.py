"""The rule of a prefix is kept in every container; a failing one does not stop the others."""

from __future__ import annotations

import pytest

import siltstone
from siltstone.container.retention.retention import Retention
from siltstone.core.errors import BackPressureError, SiltstoneError
from tests.support import inside


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_says_where_the_rule_holds_and_a_repeat_sets_it_in_all(
    store: siltstone.Store, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"everywhere-{failing}/"
    store.set_retention(name, prefix=True, bytes_max=1)
    slots = inside.slots(inside.async_store(store))
    plain_set, plain_remove = Retention.set, Retention.remove
    refused = slots[failing].container.retention

    async def set_or_fail(self: Retention, row: object) -> None:
        if self is refused:
            raise BackPressureError("injected")
        await plain_set(self, row)  # type: ignore[arg-type]

    async def remove_or_fail(self: Retention, scope: object, name: str) -> bool:
        if self is refused:
            raise BackPressureError("injected")
        return await plain_remove(self, scope, name)  # type: ignore[arg-type]

    def limits() -> list[int]:
        return sorted(rule.bytes_max or 0 for rule in store.retention() if rule.name == name)

    told = f"done_in={1 - failing} failed_in={failing}"
    monkeypatch.setattr(Retention, "set", set_or_fail)
    for _ in range(2):
        with pytest.raises(BackPressureError, match=told):
            store.set_retention(name, prefix=True, bytes_max=2)
        assert limits() == [1, 2]
    monkeypatch.undo()
    store.set_retention(name, prefix=True, bytes_max=2)
    assert limits() == [2]
    monkeypatch.setattr(Retention, "remove", remove_or_fail)
    with pytest.raises(SiltstoneError, match=told):
        store.remove_retention(name, prefix=True)
    assert limits() == [2]
    monkeypatch.undo()
    assert store.remove_retention(name, prefix=True)
    assert limits() == []
    assert not store.remove_retention(name, prefix=True)
