"""Rules of the log in Kafka, each left out; played over the model of a cluster."""

from __future__ import annotations

from tests.simulation.mutant import Mutant


def _mutant(name: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(f"Kafka: {name}", f"tier1/kafka/{file}", old, new, story="kafka")


KAFKA_MUTANTS = (
    _mutant(
        "a frame after a claim counts",
        "scan.py",
        "        if frame.epoch < self.epoch:\n",
        "        if frame.epoch < 0:\n",
    ),
    _mutant(
        "an owner does not look at what stands between its frames",
        "neighbours.py",
        "if appended.offset > last + 1:",
        "if appended.offset < 0:",
    ),
    _mutant(
        "an owner takes a claim between its frames for a frame of a fenced owner",
        "neighbours.py",
        "            if isinstance(found, ClaimRecord) and found.kind != KIND_HOLDER:\n"
        "                raise",
        "            if isinstance(found, ClaimRecord) and found.kind != KIND_HOLDER:\n"
        "                where = offset + 1\n"
        "                continue\n"
        "                raise",
    ),
    _mutant(
        "a claim has the epoch that its sender thought of",
        "scan.py",
        "self.epoch = 1 + max(record.above, self.epoch)",
        "self.epoch = max(1 + record.above, self.epoch)",
    ),
    _mutant(
        "a handle is used again after an append that may have happened",
        "fenced_log.py",
        "        except SiltstoneError as error:\n            self._poison()\n",
        "        except SiltstoneError as error:\n",
    ),
    _mutant(
        "an append that may have happened is said not to have",
        "fenced_log.py",
        "            if isinstance(error, LogError) and error.outcome is Outcome.UNKNOWN:\n"
        "                raise\n",
        "            if isinstance(error, LogError) and error.outcome is Outcome.UNKNOWN:\n"
        "                raise LogError(str(error), outcome=Outcome.NOT_APPLIED) from error\n",
    ),
    _mutant(
        "what is sent again has another sequence",
        "partition.py",
        '        records = b"".join(batch)\n        answer',
        '        records = b"".join(batch)\n'
        "        records = records[:43] + bytes([255] * 14) + records[57:]\n"
        "        answer",
    ),
    _mutant(
        "a frame that stands there twice counts twice",
        "scan.py",
        "            return  # A broker that forgot its sender took both.\n",
        "            pass\n",
    ),
    _mutant(
        "a truncation takes the newest frame",
        "fenced_log.py",
        "count = min(before_index, scan.end - 1) - scan.first",
        "count = min(before_index, scan.end) - scan.first\n"
        "        scan.offsets.append(self._last_offset + 1)",
    ),
    _mutant(
        "an owner knows of no newer one",
        "neighbours.py",
        "                    newest = 1 + max(found.above, newest)",
        "                    pass",
    ),
)
