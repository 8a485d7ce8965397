"""Verbs of retention: rules that are set and removed, and rounds by them."""

from __future__ import annotations

from siltstone.container.models.segments import RetentionRule
from tests.simulation.facts import ViolationError
from tests.simulation.lives import Lives
from tests.simulation.rules import Key

BYTES = (None, 0, 3_000, 20_000)
AGES_S = (None, 1.0, 5.0, 20.0)


class Ageing(Lives):
    """Rules, and rounds by them."""

    async def set_rule(self) -> None:
        """A rule shortens segments that clients share, never those that are to be joined."""
        segment = self._some()
        prefix = segment is None or self._chance.random() < 0.6
        kinds = ("s/", "s/1", "r/")
        name = self._tag + self._chance.choice(kinds) if prefix else segment.name  # type: ignore[union-attr]
        rule = RetentionRule(
            name=name,
            prefix=prefix,
            bytes_max=self._chance.choice(BYTES),
            age_max_s=self._chance.choice(AGES_S),
        )
        await self._change((prefix, name), rule)

    async def remove_rule(self) -> None:
        """Remove one of the rules that may be there."""
        keys = [key for key in self._ledger.rules.keys if key not in self._ledger.rules.busy]
        if keys:
            await self._change(self._chance.choice(keys), None)

    async def _change(self, key: Key, rule: RetentionRule | None) -> None:
        rules, (prefix, name) = self._ledger.rules, key
        if key in rules.busy:
            return

        async def call() -> bool:
            if rule is None:
                await self._store.remove_retention(name, prefix=prefix)
            else:
                await self._store.set_retention(
                    name, prefix=prefix, bytes_max=rule.bytes_max, age_max=rule.age_max_s
                )
            return True

        rules.busy.add(key)
        try:
            change = rules.asked(key, rule, self.epoch)
            # A prefix is told to one container after the other: one may refuse, another not.
            several = prefix and self._store.container_count > 1
            epoch = self.epoch
            if await self._ask(call, change, again=several) and epoch == self._ledger.epoch:
                self._ledger.allow_cuts()
                rules.settle(key, change)
        finally:
            rules.busy.discard(key)

    async def look_at_rules(self) -> None:
        """Compare the rules with those that were set."""
        epoch, rules = self.epoch, self._ledger.rules
        current, busy = epoch == self._ledger.epoch, set(rules.busy)
        changes = rules.count
        found = await self._ask(self._slot_rules)
        # Whatever was being changed meanwhile may be shown before or after that.
        quiet = not busy and not rules.busy and changes == rules.count
        if found is not None and current and epoch == self._ledger.epoch and quiet:
            self._ledger.allow_cuts()
            rules.seen(rule for rule in found if rule.name.startswith(self._tag))

    async def _slot_rules(self) -> list[RetentionRule]:
        return await self._slot.container.retention.rules()

    async def retain(self) -> None:
        """Apply the rules now."""

        async def call() -> bool:
            async for cut in self._slot.container.retention.round():
                if not cut.start_offset < cut.cut_offset <= cut.length:
                    raise ViolationError(f"an impossible cut: {cut}")
            return True

        await self._ask(call)
