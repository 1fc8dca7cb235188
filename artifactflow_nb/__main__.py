"""`python -m artifactflow_nb serve`: the commands of the package."""

import argparse
import sys
from collections.abc import Sequence

from artifactflow_nb.errors import ArtifactFlowError
from artifactflow_nb.server.command import add_serve


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m artifactflow_nb", description="Commands of ArtifactFlow NB.")
    add_serve(parser.add_subparsers(required=True, metavar="command"))
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except ArtifactFlowError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the answer of a command
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
