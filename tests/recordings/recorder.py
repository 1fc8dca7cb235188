"""A process that holds a cassette: `python recorder.py PATH`; it says `ready`, and ends when its input does."""

import sys

from artifactflow_nb.recordings.cassette_file import CassetteFile

with CassetteFile(sys.argv[1]):
    print("ready", flush=True)  # noqa: T201 - who started it waits for this
    sys.stdin.read()
