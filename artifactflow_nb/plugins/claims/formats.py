"""Reports as text, JSON, annotations of GitHub and SARIF."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from artifactflow_nb.plugins.claims.report import COUNTED, FigureCheck, NotebookReport

_SIGNS = "%\r\n:,"
_LEVELS = {"differs": "error", "stale": "warning", "nowhere": "notice"}


def _shown(report: NotebookReport) -> list[FigureCheck]:
    return [each for status in _LEVELS for each in report.with_status(status)]


def _as_text(report: NotebookReport) -> str:
    lines = [
        f"{each.file}, cell {each.cell}, line {each.line}: {each.status}: {each.reason}"
        f"{f' ({each.where})' if each.where else ''}\n    {each.text}"
        for each in _shown(report)
    ]
    return "\n".join([*lines, repr(report)])


def as_json(report: NotebookReport) -> str:
    """Return the counts and all figures."""
    figures = [{name: getattr(each, name) for name in each.__dataclass_fields__} for each in report.checks]
    return json.dumps({"counts": report.counts, "figures": figures}, ensure_ascii=False, indent=2)


def _as_github(report: NotebookReport) -> str:
    def escape(text: str, signs: str = "%\r\n") -> str:
        return "".join(f"%{ord(sign):02X}" if sign in signs else sign for sign in text)

    lines = [
        f"::{_LEVELS[each.status]} file={escape(each.file, _SIGNS)},line={each.line},"
        f"title={escape(f'{each.figure} {each.status}', _SIGNS)}"
        f"::{escape(f'{each.reason} Cell {each.cell}: {each.text}')}"
        for each in _shown(report)
    ]
    return "\n".join([*lines, repr(report)])


def _as_sarif(report: NotebookReport) -> str:
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
    rules = [{"id": status, "shortDescription": {"text": f"A figure that is {status}."}} for status in COUNTED[1:]]
    run = {"tool": {"driver": {"name": "artifactflow_nb check", "rules": rules}}, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=2)


FORMATS: Mapping[str, Callable[[NotebookReport], str]] = {
    "text": _as_text,
    "json": as_json,
    "github": _as_github,
    "sarif": _as_sarif,
}
