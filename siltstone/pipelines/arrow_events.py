"""Events as Arrow arrays: their headers are taken out in C++, without a Python object for each."""

from __future__ import annotations

import numpy
import pyarrow
import pyarrow.compute

from siltstone.events import EVENT_BYTES_MAX, HEADER_BYTES
from siltstone.pipelines.event_runs import EventRun


def event_payloads(run: EventRun, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return the payloads of ``run`` as an array of ``kind``, string or binary."""
    count = len(run.starts)
    # Headers and payloads over the bytes where they are; only the payloads are copied.
    offsets = numpy.empty(count + 1, dtype=numpy.int32)
    offsets[:-1] = run.starts
    offsets[-1] = run.starts[-1] + HEADER_BYTES + run.lengths[-1]
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(run.buffer)]
    framed = pyarrow.Array.from_buffers(pyarrow.binary(), count, buffers)
    payloads = pyarrow.compute.binary_slice(framed, HEADER_BYTES, HEADER_BYTES + EVENT_BYTES_MAX)
    return payloads.view(kind)
