"""Work on the bytes of many chunks, on this machine or on many, without Spark being installed.

What a task needs travels as plain records (``window``); what it does with long-term storage is
here, below the command and below ``siltstone.spark``, which both use it.
"""
