"""A process that opens files: `python open_with_little_memory.py MEGABYTES PATH...`; a line of JSON for each.

The line holds the error and the processor seconds.
"""

import json
import resource
import sys
import time
from pathlib import Path

from artifactflow_nb.errors import CassetteError
from artifactflow_nb.notebook.sealed_run import open_run
from artifactflow_nb.recording.cassette import Cassette


def use(path: Path) -> str:
    try:
        if path.suffix == ".afrun":
            open_run(path).close()
        else:
            cassette = Cassette.open(path)
            for head in cassette.heads:
                cassette.rows(head)
    except CassetteError as error:
        return str(error)
    return ""


use(Path("none.afrun"))  # imports what it needs
room = int(sys.argv[1]) * 2**20
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
for name in sys.argv[2:]:
    started = time.process_time()
    error = use(Path(name))
    print(json.dumps({"error": error, "seconds": time.process_time() - started}))  # noqa: T201 - who started it reads this
