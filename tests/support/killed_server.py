"""A server for tests that kill it: `python killed_server.py FOLDER`; prints its port.

Its model answers in pieces, slowly, so that a test can kill the server in the middle of an answer.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.server.app import EndingServer, make_app
from artifactflow_nb.server.lifecycle import open_lifecycle

ANSWER = "".join(f"word {number} " for number in range(40))


if __name__ == "__main__":
    model = ScriptedModel(lambda _request: ANSWER, chunk_chars=8, delay_s=0.02)
    lifecycle = open_lifecycle(model=model, data_dir=Path(sys.argv[1]))
    EndingServer(make_app(lifecycle), lifecycle, "127.0.0.1", 0, lambda port: print(port, flush=True)).run()  # noqa: T201
