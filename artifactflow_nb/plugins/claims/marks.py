"""The marks of claims in a rendered text: a line below each claim, a sign with a passage behind it, and a head line.

A claim is found by its letters and digits, so that markup, links and citations within the claim do not matter. Like a
citation, a mark needs no script and no kernel; the citation's classes show and hide the passage.
"""

import html
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path

from artifactflow_nb.core.language import EnglishText, translate, translate_list
from artifactflow_nb.core.text.format import translate_count
from artifactflow_nb.core.text.markdown import escape
from artifactflow_nb.core.text.rendered_text import RenderedText, key_of
from artifactflow_nb.plugins.claims.frame import load_checks
from artifactflow_nb.plugins.claims.language import lists
from artifactflow_nb.plugins.claims.prose import plain_text
from artifactflow_nb.plugins.claims.versions import RULES
from artifactflow_nb.sources.values import NO_MARKS, TextMarks
from artifactflow_nb.store.artifact_versions import Artifact

STYLES = {"af-said": Path(__file__).with_name("marks.css").read_text(encoding="utf-8")}

STATUSES: Mapping[str, tuple[EnglishText, EnglishText, EnglishText]] = {
    "supported": ("✓", "Supported", "{n} supported"),
    "contradicted": ("✗", "Contradicted", "{n} contradicted"),
    "unsupported": ("?", "Unsupported", "{n} unsupported"),
    "uncheckable": ("≈", "Uncheckable", "{n} uncheckable"),
    "unchecked": ("", "Unchecked", "{n} unchecked"),
}
"""The sign behind a claim, the name, and the count in the head line, by status."""

_OTHER = re.compile(r"(.{1,40}?) there[,;]")


def load_marks(db: sqlite3.Connection, run_id: str, artifact: Artifact | None) -> TextMarks:
    """Load the marks of a version, or of the last version of each text that a run wrote."""
    version = () if artifact is None else (artifact.artifact_id, artifact.version)
    rows = load_checks(
        db, "c.run_id = ?" + " AND v.artifact_id = ? AND v.version = ?" * bool(version), (run_id, *version)
    )
    last = {row["artifact_id"]: row["version"] for row in rows}
    current = [row for row in rows if row["version"] == last[row["artifact_id"]]]
    return ClaimMarks(current) if current else NO_MARKS


class ClaimMarks(TextMarks):
    """The marks of some versions, from the rows of the claims."""

    def __init__(self, rows: Sequence[sqlite3.Row]) -> None:
        self._rows = rows
        ranks = ["supported", *list(STATUSES)[::-1]]
        by_rank = sorted(rows, key=lambda row: ranks.index(row["status"]))
        # A sentence that stands twice has the worse mark.
        self._claims = {key: row for row in by_rank if (key := key_of(html.unescape(row["text"])))}

    def head(self, artifact_id: str = "", version: int = 0) -> str:
        """Return the line above a version that counts its claims by status."""
        chosen = (artifact_id, version)
        rows = [row for row in self._rows if not artifact_id or (row["artifact_id"], row["version"]) == chosen]
        counts = Counter(row["status"] for row in rows)
        shown = [
            f'<span class="af-said af-said-{status}">{f"{sign} {translate(label, n=counts[status])}".strip()}</span>'
            for status, (sign, _, label) in STATUSES.items()
            if counts[status]
        ]
        total = translate("{title}: {text}", title=translate_count(len(rows), "claim"), text=translate_list(shown))
        return f'<p class="af-said-head">{total}</p>' if rows else ""

    def apply(self, markup: str) -> str:
        """Mark the claims of a block of HTML."""
        text = RenderedText(markup, plain_text)
        changes: list[tuple[int, int, str]] = []  # the place in the HTML, the order at one place, the piece
        for key, start, end in text.find(self._claims):
            row = self._claims[key]
            if row["status"] == "unchecked":
                continue
            opening = f'<span class="af-said af-said-{row["status"]}" title="{escape(_description(row))}">'
            for first, last in text.runs(start, end):
                changes += [(first, 2, opening), (last, 0, "</span>")]
            changes.append((text.place_after(end), 1, sign_html(row)))
        for place, _, piece in sorted(changes, key=itemgetter(0, 1))[::-1]:
            markup = f"{markup[:place]}{piece}{markup[place:]}"
        return markup


def _reason(row: sqlite3.Row) -> str:
    """Return the reason of a check in the language of the interface; notes of persons stay."""
    for template in lists()["reasons"] if row["checker"] == RULES else ():
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(template))
        if match := re.fullmatch(pattern, row["reason"]):
            return translate(template, **match.groupdict())
    return str(row["reason"] or "")


def _description(row: sqlite3.Row) -> str:
    return translate("{title}: {text}", title=translate(STATUSES[row["status"]][1]), text=_reason(row))


def sign_html(row: sqlite3.Row) -> str:
    """Return the sign behind a claim, with the passage, its place and the reason."""
    sign, name, _ = STATUSES[row["status"]]
    other = _OTHER.match(row["reason"] or "") if row["status"] == "contradicted" else None
    shown = f"{sign} {translate('{other} there', other=other[1])}" if other else sign
    page = translate("Page {page}", page=row["page"]) if row["page"] else ""
    passage = f"<q><mark>{escape(row['passage'])}</mark></q>" if row["passage"] else ""
    where = escape(" · ".join(filter(None, [row["source_title"], page, row["address"]])))
    return (
        f'<span class="af-cite"><span class="af-cite-mark af-sign af-said-{row["status"]}" tabindex="0" role="button" '
        f'aria-label="{escape(_description(row))}">{escape(shown)}</span><span class="af-passage" hidden="hidden">'
        f"<b>{translate(name)}</b><small>{escape(_reason(row))}</small>{passage}<small>{where}</small></span></span>"
    )
