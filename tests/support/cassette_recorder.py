"""A process that records into a cassette until its input ends: `python cassette_recorder.py PATH`."""

import sys
from contextlib import closing
from pathlib import Path

from artifactflow_nb.recording.cassette import CassetteWriter

with closing(CassetteWriter(Path(sys.argv[1]))):
    print("ready", flush=True)  # noqa: T201 - who started it waits for this
    sys.stdin.read()
