"""Figures of claims that cite computed results, such as `[data:c-1a2b3c]`, against the cells of these results."""

import re
from collections.abc import Sequence
from functools import lru_cache

from artifactflow_nb.plugins.claims.checker import Verdict
from artifactflow_nb.plugins.claims.figures import Figure, read_figures
from artifactflow_nb.plugins.claims.matching import Context, Match, ValueIndex
from artifactflow_nb.plugins.claims.prose import Claim
from artifactflow_nb.plugins.claims.report import SMALL_WORD
from artifactflow_nb.plugins.claims.values import OutputReader, Place, Value

EVIDENCE_ID = re.compile(r"\bdata:c-[0-9a-f]+\b")


@lru_cache(maxsize=16)
def _values(address: str, text: str) -> list[Value]:
    """Read the cells of the table in the text that the tool returned to the agent."""
    table = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    return list(OutputReader().of_text(table, Place(file=address)))


def check_computed(claim: Claim, results: Sequence[tuple[str, str]]) -> Verdict:
    """Compare the figures of a claim with the cells of the results that the claim cites.

    Args:
        claim: The claim.
        results: The id of each result, and the text of the result with the table in Markdown.
    """
    text = EVIDENCE_ID.sub(lambda match: " " * len(match[0]), claim.plain)
    figures = [figure for figure in read_figures(text) if figure.kind != "name"]
    context = Context(Claim(text, claim.start, kind=claim.kind, label=claim.label), figures)
    index = ValueIndex([value for address, result in results for value in _values(address, result)])
    matches: list[Match] = []
    for figure in figures:
        match = _match(index, figure, context)
        if match is not None and match.status == "supported":
            matches.append(match)
        elif match is not None:
            where = f"{match.place}: {match.value}"
            return Verdict(match.status, "computed", f"{match.value} there.", where, address=match.place.file)
        elif figure.kind != "year" and not (figure.is_word and figure.value <= SMALL_WORD):
            reason = f"{figure.text.strip()} is in no cell of the result that the claim is about."
            return Verdict("unsupported", "computed", reason, address=results[0][0])
    if not matches:
        reason = "The claim has no figure that can be compared with the result."
        return Verdict("uncheckable", reason=reason, address=results[0][0])
    quote = "; ".join(f"{match.place}: {match.value}" for match in matches)
    return Verdict(
        "supported", "computed", "The result has the figures.", quote, address=matches[0].place.file, score=1
    )


def _match(index: ValueIndex, figure: Figure, context: Context) -> Match | None:
    """Return the cell that a figure is; `contradicted` if the labels of a cell with another value name the figure.

    A cell is no match if the claim names rows of the results, and the row of the cell is not among them. If the claim
    names none of several rows, the match is `uncheckable`: it may be about something else.
    """
    match, equal = index.match(figure, context), index.equal(figure, context)
    if match is not None and match.status == "differs":
        return Match("contradicted", match.value, match.place)
    named = {value.place.row for value in index.values if value.row and all(map(context.has, value.row))}
    rows = {value.place.row for value in equal}
    if equal and named and named.isdisjoint(rows):
        return None
    if equal and not named and "" not in rows and len({value.place.row for value in index.values}) > 1:
        return Match("uncheckable", equal[0].figure.text, equal[0].place)
    return Match("supported", equal[0].figure.text, equal[0].place) if match is None and equal else match
