"""Recording and playback of runs: cassettes, sealed files, forks and verification.

::

    store rows ──> redact ──> cassette (JSONL), sealed file (zip)
                                 │
                                 └──> playback: rows into another store, events to its feeds

This package drives the engine from above; the engine does not know that runs are recorded or played back.
"""
