"""Rules of the pipeline, the flush, the journal, the garbage and the boot, each left out."""

from __future__ import annotations

from tests.simulation.mutant import Mutant

ENGINE_MUTANTS = (
    Mutant(
        "the log does not fence",
        "tier1/memory/fenced_log.py",
        """            if shared.epoch != self._epoch:
                self._state = HandleState.POISONED
                raise FencedError(
                    "a newer epoch was claimed", epoch=self._epoch, newer=shared.epoch
                )
            frame = decode""",
        "            frame = decode",
    ),
    Mutant(
        "the journal is not listed again after the claim",
        "container/boot/claim.py",
        "journal_state = await read_journal(storage, environment, container, epoch)",
        "journal_state = known.journal_state",
    ),
    Mutant(
        "garbage goes although long-term storage does not know of its drop",
        "container/garbage/collector.py",
        "if task.dropped_version <= covered and (",
        "if (",
    ),
    Mutant(
        "garbage goes without a look for a newer owner and without a statement",
        "container/garbage/collector.py",
        """        await self._pipeline.update(entries)
        if not stated:
            return 0
""",
        """        if not stated:
            return 0
""",
    ),
    Mutant(
        "an open chunk of another epoch is written",
        "segments/write.py",
        "chunk.epoch == context.layouts.epoch\n        and not chunk.closed",
        "not chunk.closed",
    ),
    Mutant(
        "a chunk is appended to after an append that may have happened",
        "segments/write.py",
        "and not context.memory.is_spoilt(chunk.chunk_id)\n",
        "",
    ),
    Mutant(
        "the safe index does not wait for unflushed bytes",
        "container/state/replica.py",
        "lowest = min(lowest, segment.tail.first.index)",
        "pass",
    ),
    Mutant(
        "the safe index does not wait for the table log",
        "container/state/replica.py",
        "lowest = min(lowest, behind)",
        "pass",
    ),
    Mutant(
        "the log is truncated beyond the newest checkpoint record",
        "container/flush/table_log_flusher.py",
        "index = min(self._journal.stated_safe_index, checkpoint)",
        "index = checkpoint + 1",
    ),
    Mutant(
        "a deleted segment is flushed",
        "metadata/layout_store.py",
        """                if state is None or state.deleted:
                    return ()
            for""",
        """                if state is None:
                    return ()
            for""",
    ),
    Mutant(
        "appends are told before the log has them",
        "container/commit/pipeline.py",
        "        self._sending = batch\n",
        """        self._sending = batch
        for future, result in zip(batch.futures, batch.results, strict=True):
            if not future.done():
                future.set_result(result)
""",
    ),
    Mutant(
        "an unknown journal write is taken for one that failed",
        "journal/journal.py",
        """            except ChunkError:
                self._file.usable = False
                await self._pause(attempt)""",
        """            except ChunkError:
                await self._pause(attempt)""",
    ),
    Mutant(
        "a log that failed leaves what was pending",
        "container/commit/pipeline.py",
        "        self.replica.tables.drop_pending()\n",
        "",
    ),
    Mutant(
        "the marks of writers do not move with a flush",
        "container/flush/segment_flusher.py",
        "                rows.append(advanced(base, mark))",
        "                pass",
    ),
    Mutant(
        "a concat does not hold back appends to its target",
        "container/commit/concat_guard.py",
        "        target.stop_appends()\n",
        "",
    ),
    Mutant(
        "the second look at the log begins a frame too late",
        "container/state/log_scan.py",
        "        return max(needed, self._safe_index)\n",
        "        return max(needed, self._safe_index) + 1\n",
    ),
    Mutant(
        "files of the second newest checkpoint go",
        "journal/journal.py",
        "self._checkpoints = [*self._checkpoints[-1:], durable]",
        "self._checkpoints = [durable]",
    ),
    Mutant(
        "a checkpoint counts at once",
        "journal/journal.py",
        "            stated = self._checkpoints[-1].checkpoint.safe_index\n",
        "            stated = checkpoint.safe_index\n",
    ),
    Mutant(
        "a checkpoint is written before the table log",
        "container/flush/checkpointer.py",
        """            await self._table_log_flusher.flush()
            async with""",
        "            async with",
    ),
    Mutant(
        "the table log is flushed ahead of bytes of its commits",
        "container/flush/whole_cut.py",
        "            while self._replica.torn():\n",
        "            while False:\n",
    ),
    Mutant(
        "joint commits go on while the rest is flushed, and the second look is left out",
        "container/flush/whole_cut.py",
        """            with self._gate.closed():
                await asyncio.wait([work], timeout=held_s)
                version = self._replica.tables.applied_version
                whole = work.done() and not self._replica.torn()
""",
        """            await asyncio.wait([work], timeout=held_s)
            version = self._replica.tables.applied_version
            whole = work.done()
""",
    ),
    Mutant(
        "a boot forgets which bytes are of joint commits",
        "container/state/replayed.py",
        "        if joint:\n",
        "        if joint and False:\n",
    ),
    Mutant(
        "a small concat is no joint commit",
        "container/changes/concat.py",
        "                piece.joint_end = segment.assigned\n",
        "",
    ),
    Mutant(
        "a read takes sums later than lengths",
        "segments/read.py",
        "        sums=sums,\n",
        "        sums=_sums_of(context, part),\n",
    ),
    Mutant(
        "a closing ends with its caller",
        "container/container.py",
        "await self._closing.run(partial(self._close, choice))",
        "await self._close(choice)",
    ),
    Mutant(
        "chunks of open imports are swept",
        "container/garbage/import_sweep.py",
        "elif session_id not in known.open_ids and not known.is_named(stat.name):",
        "elif not known.is_named(stat.name):",
    ),
    Mutant(
        "the local index is used whatever history it is of",
        "container/boot/replay.py",
        "        and await _crc_at(",
        "        or await _crc_at(",
    ),
    Mutant(
        "chunk ids begin where the last owner used them",
        "metadata/layout_store.py",
        "await self._log.update([changes.put_counter(CounterKind.CHUNK_ID, end)])",
        "pass",
    ),
    Mutant(
        "an unknown create is repeated under its name",
        "segments/chunk_writes.py",
        "burnt = error.outcome is Outcome.UNKNOWN",
        "burnt = False",
    ),
)
