"""`python -m artifactflow_nb check`, which ends with 1 if a figure differs and 2 for a wrong file, and `%af check`."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.errors import UsageError, wrap_words

if TYPE_CHECKING:
    from artifactflow_nb.plugins.claims.report import NotebookReport

_FORMATS = ("text", "json", "github", "sarif")


def add_check(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `check` to a parser."""
    parser = commands.add_parser("check", help="check the figures in the prose of notebooks against their outputs")
    parser.add_argument("files", nargs="+", help="notebooks, Jupytext files, and Markdown reports about them")
    parser.add_argument("--data", action="append", default=[], help="a CSV, JSON or Parquet file, or a folder")
    parser.add_argument("--format", choices=_FORMATS, default="text", help="text by default")
    parser.add_argument("--annotate", metavar="FILE", help="write a copy of the first notebook with marks")
    parser.set_defaults(run=run_check)


def run_check(options: argparse.Namespace) -> int:
    """Check, print the report and return the exit status."""
    from artifactflow_nb.plugins.claims.formats import FORMATS
    from artifactflow_nb.plugins.claims.report import check_notebook

    try:
        report = check_notebook(*options.files, data=options.data, annotate=options.annotate)
    except UsageError as error:
        print(wrap_words(str(error)), file=sys.stderr)  # noqa: T201 - the answer of a command
        return 2
    print(FORMATS[options.format](report))  # noqa: T201 - the same
    return 1 if report.with_status("differs") else 0


def check_this(arguments: Sequence[str], variables: Mapping[str, Any]) -> "NotebookReport":
    """Check files, by default the notebook in which the cell stands, as it was saved last.

    Errors: `UsageError` if the front end does not tell which notebook that is.
    """
    from artifactflow_nb.plugins.claims.report import check_notebook

    session = variables.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME", "")
    if not arguments and not (session.endswith(".ipynb") and Path(session).is_file()):
        raise UsageError("This front end does not tell which notebook this is. Name it: %af check paper.ipynb")
    return check_notebook(*arguments or [session])
