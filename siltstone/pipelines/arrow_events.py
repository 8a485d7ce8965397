"""Events as Arrow arrays: their headers are taken out in C++, without a Python object for each."""

from __future__ import annotations

import numpy
import pyarrow
import pyarrow.compute

from siltstone.events import HEADER_BYTES
from siltstone.pipelines.event_runs import EventRun


def event_payloads(run: EventRun, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return the payloads of ``run`` as an array of ``kind``, string or binary."""
    count = len(run.starts)
    # Headers and payloads by turns, over the bytes where they are; then every second value.
    offsets = numpy.empty(2 * count + 1, dtype=numpy.int32)
    offsets[0:-1:2] = run.starts
    offsets[1::2] = run.starts + HEADER_BYTES
    offsets[-1] = run.starts[-1] + HEADER_BYTES + run.lengths[-1]
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(run.buffer)]
    both = pyarrow.Array.from_buffers(kind, 2 * count, buffers)
    payloads = pyarrow.array(numpy.arange(1, 2 * count, 2, dtype=numpy.int32))
    return pyarrow.compute.take(both, payloads, boundscheck=False)
