"""Recording and playback of runs: cassettes, sealed files, forks and verification.

::

    store rows ──> redact ──> cassette (JSONL), sealed file (zip)
                                 │
                                 └──> playback: rows into another store, events to its feeds

The room drives the engine from above; nothing below it knows that runs are recorded or played back.
"""
