"""`python -m artifactflow_nb check`, which ends with 1 if a figure differs and 2 for a wrong file, and `%af check`."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.errors import UsageError, wrap_words

if TYPE_CHECKING:
    from artifactflow_nb.plugins.claims.report import FigureCheck, NotebookReport

_SIGNS = "%\r\n:,"
_LEVELS = {"differs": "error", "stale": "warning", "nowhere": "notice"}


def _shown(report: "NotebookReport") -> "list[FigureCheck]":
    return [each for status in _LEVELS for each in report.with_status(status)]


def _as_text(report: "NotebookReport") -> str:
    lines = [
        f"{each.file}, cell {each.cell}, line {each.line}: {each.status}: {each.reason}"
        f"{f' ({each.where})' if each.where else ''}\n    {each.text}"
        for each in _shown(report)
    ]
    return "\n".join([*lines, repr(report)])


def as_json(report: "NotebookReport") -> str:
    """Return the counts and all figures."""
    figures = [{name: getattr(each, name) for name in each.__dataclass_fields__} for each in report.checks]
    return json.dumps({"counts": report.counts, "figures": figures}, ensure_ascii=False, indent=2)


def _as_github(report: "NotebookReport") -> str:
    def escape(text: str, signs: str = "%\r\n") -> str:
        return "".join(f"%{ord(sign):02X}" if sign in signs else sign for sign in text)

    lines = [
        f"::{_LEVELS[each.status]} file={escape(each.file, _SIGNS)},line={each.line},"
        f"title={escape(f'{each.figure} {each.status}', _SIGNS)}"
        f"::{escape(f'{each.reason} Cell {each.cell}: {each.text}')}"
        for each in _shown(report)
    ]
    return "\n".join([*lines, repr(report)])


def _as_sarif(report: "NotebookReport") -> str:
    results: list[dict[str, Any]] = [
        {
            "ruleId": each.status,
            "level": _LEVELS[each.status].replace("notice", "note"),
            "message": {"text": f"{each.reason} Cell {each.cell}: {each.text}"},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": each.line}}}],
        }
        for each in _shown(report)
        for uri in [each.file.replace("\\", "/")]
    ]
    rules = [{"id": status, "shortDescription": {"text": f"A figure that is {status}."}} for status in _LEVELS]
    run = {"tool": {"driver": {"name": "artifactflow_nb check", "rules": rules}}, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=2)


_FORMATS: Mapping[str, Callable[["NotebookReport"], str]] = {
    "text": _as_text,
    "json": as_json,
    "github": _as_github,
    "sarif": _as_sarif,
}


def add_check(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `check` to a parser."""
    parser = commands.add_parser("check", help="check the figures in the prose of notebooks against their outputs")
    parser.add_argument("files", nargs="+", help="notebooks, Jupytext files, and Markdown reports about them")
    parser.add_argument("--data", action="append", default=[], help="a CSV, JSON or Parquet file, or a folder")
    parser.add_argument("--format", choices=list(_FORMATS), default="text", help="text by default")
    parser.add_argument("--annotate", metavar="FILE", help="write a copy of the first notebook with marks")
    parser.set_defaults(run=run_check)


def run_check(options: argparse.Namespace) -> int:
    """Check, print the report and return the exit status."""
    from artifactflow_nb.plugins.claims.report import check_notebook

    try:
        report = check_notebook(*options.files, data=options.data, annotate=options.annotate)
    except UsageError as error:
        print(wrap_words(str(error)), file=sys.stderr)  # noqa: T201 - the answer of a command
        return 2
    print(_FORMATS[options.format](report))  # noqa: T201 - the same
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
