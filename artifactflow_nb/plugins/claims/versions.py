"""Checks of the claims in a version of an artifact against the texts of sources and the computed results of its run."""

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from artifactflow_nb.engine.cited_sources import load_evidence
from artifactflow_nb.plugins.claims.checker import Verdict, check
from artifactflow_nb.plugins.claims.figures import Figure, read_figures
from artifactflow_nb.plugins.claims.frame import CHECKS, OF_VERSION, load_checks
from artifactflow_nb.plugins.claims.language import terms
from artifactflow_nb.plugins.claims.matching import Context, Match, ValueIndex
from artifactflow_nb.plugins.claims.prose import Claim, split_claims
from artifactflow_nb.plugins.claims.report import SMALL_WORD
from artifactflow_nb.plugins.claims.sources import Source
from artifactflow_nb.plugins.claims.values import OutputReader, Place, Value
from artifactflow_nb.sources.citation_marks import MARK, cited_numbers, listed_sources, source_entries
from artifactflow_nb.sources.citations import find_addresses
from artifactflow_nb.sources.values import Evidence
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import NEXT_VERSION, Authorship, NewVersion
from artifactflow_nb.store.encoding import insert
from artifactflow_nb.store.schema import to_microseconds

EVIDENCE_ID = re.compile(r"\bdata:c-[0-9a-f]+\b")
RULES = "rules"  # the checker of layer 1
PERSON = "person"  # the method of a verdict

_MOST_CLAIMS = 500
_MOST_SOURCE_CHARACTERS = 1_000_000
_LONGEST = 1_000
_PAGE = re.compile(r"#p(?:age)?-?(\d+)\Z")
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n|\n(?=\s{0,3}#)")


def _cited_claims(markdown: str) -> list[tuple[Claim, Sequence[str]]]:
    """Return the claims with their own addresses, or those of neighbours; a text that cites nothing has no claims."""
    listed = {number: source.address for number, source in listed_sources(markdown).items()}
    entries = [entry.span() for entry in source_entries(markdown)]
    claims = [
        claim
        for claim in split_claims(markdown)
        if not any(start - 2 <= claim.start < end for start, end in entries)
        and (len(claim.plain.split()) > 2 or len(terms(claim.plain)) > 1 or claim.kind == "cell")  # noqa: PLR2004 - "Yes."
    ]
    cited: list[tuple[Claim, Sequence[str]]] = []
    following: Sequence[str] = ()
    for number in reversed(range(len(claims))):
        claim = claims[number]
        region = markdown[claim.start : claims[number + 1].start if number + 1 < len(claims) else None]
        region, *rest = _PARAGRAPH_END.split(region, maxsplit=1)
        is_joined = not rest and (claim.kind == "sentence" or (claim.kind == "cell" and "\n" not in region))
        numbers = [each for mark in MARK.finditer(region) for each in cited_numbers(mark["numbers"])]
        own = (
            [listed[each] for each in numbers if each in listed] + find_addresses(region) + EVIDENCE_ID.findall(region)
        )
        following = tuple(dict.fromkeys(own)) or (following if is_joined else ())
        cited.insert(0, (claim, following))
    for number, (claim, addresses) in enumerate(cited[1:], 1):
        if claim.kind == "quote" and not addresses:
            cited[number] = claim, cited[number - 1][1]
    return cited if any(addresses for _, addresses in cited) else []


@lru_cache(maxsize=16)
def _source(text: str, address: str) -> Source:
    """Keep the indexes of the last sources: an agent changes a text in many small steps."""
    return Source(text, address)


@lru_cache(maxsize=16)
def _values(address: str, text: str) -> list[Value]:
    """Read the cells of the table in the text that the tool returned to the agent."""
    table = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    return list(OutputReader().of_text(table, Place(file=address)))


def check_computed(claim: Claim, results: Sequence[tuple[str, str]]) -> Verdict:
    """Compare the figures of a claim with the cells of the results that it cites: ids and texts with tables."""
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
    """Return the cell that a figure is, or should be; a cell of a row that the claim does not name is in doubt."""
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


def verdict_of(claim: Claim, addresses: Sequence[str], evidence: Evidence) -> Verdict:
    """Compare a claim with what the run has read of its sources; a search result can support, but not contradict."""
    texts = {address: evidence.text(address).strip() and evidence.text(address) for address in addresses}
    if sum(map(len, texts.values())) > _MOST_SOURCE_CHARACTERS:
        return Verdict("unchecked", reason="The sources are too long to be checked.")
    snippets = [
        _source(evidence.snippet(each), each) for each in addresses if not texts[each] and evidence.snippet(each)
    ]
    sources = [_source(text, address) for address, text in texts.items() if text] + snippets
    if addresses and not sources:
        return Verdict("unchecked", reason="This run has not read the source.")
    results = [(address, text) for address, text in texts.items() if text and EVIDENCE_ID.fullmatch(address)]
    try:
        verdict = check_computed(claim, results) if results else check(claim, sources)
        if results and verdict.status != "supported" and len(sources) > len(results):
            verdict = check(claim, [source for source in sources if not EVIDENCE_ID.fullmatch(source.address)])
    except Exception as error:  # noqa: BLE001 - whatever fails in a rule must not fail the write, and decides nothing
        return Verdict("unchecked", reason=f"The check failed: {type(error).__name__}.")
    if verdict.status != "supported" and not all(texts.values()):
        return Verdict("unchecked", reason="This run has not read all of the sources.")
    return verdict


def claim_rows(markdown: str, load: Callable[[list[str]], Evidence]) -> Iterator[dict[str, Any]]:
    """Yield the columns of a check for each claim of a text, without the ids; `load` gets the cited addresses."""
    claims = _cited_claims(markdown)
    evidence = load(list(dict.fromkeys(address for _, addresses in claims for address in addresses)))
    titles = {source.address: source.title for source in listed_sources(markdown).values()}
    for n, (claim, addresses) in enumerate(claims):
        too_many = Verdict("unchecked", reason=f"Only the first {_MOST_CLAIMS} claims of a text are checked.")
        verdict = verdict_of(claim, addresses, evidence) if n < _MOST_CLAIMS else too_many
        address = verdict.address or next(iter(addresses), "")
        text = evidence.text(address) or evidence.snippet(address)
        page = _PAGE.search(address)
        n_figures = sum(figure.kind != "name" for figure in read_figures(claim.plain))
        is_computed = EVIDENCE_ID.fullmatch(address) is not None
        is_quote = claim.kind == "quote" or verdict.method == "quotes"
        shown = re.sub(r" (?=[.,;:!?])", "", claim.named)[:_LONGEST]
        yield {
            "n": n,
            "text": shown,
            "kind": "computed" if is_computed else "quote" if is_quote else "figure" if n_figures else "fact",
            "n_figures": n_figures,
            "status": verdict.status,
            "method": verdict.method or None,
            "reason": verdict.reason,
            "score": round(100 * verdict.score) if verdict.quote else None,
            "address": address or None,
            "source_title": titles.get(address),
            "quote": None if verdict.quote == shown else verdict.quote[:_LONGEST] or None,
            "start": verdict.start if verdict.quote else None,
            "end": verdict.end if verdict.quote else None,
            "page": int(page[1]) if page else None,
            "checker": RULES,
            "source_sha256": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else None,
        }


def check_version(db: sqlite3.Connection, by: Authorship, before: Artifact | None, version: NewVersion) -> None:
    """Check a version of a text in the transaction that writes it; equal sentences keep the verdicts of persons."""
    if version.content_type != "text/markdown" or version.update_type == "delete":
        return
    number = db.execute(NEXT_VERSION, (by.conversation_id, version.artifact_id)).fetchone()[0]
    run = db.execute("SELECT run_id FROM runs WHERE message_id = ?", (by.message_id,)).fetchone()
    run_id = by.run_id or (run and run["run_id"])
    if run_id is None:
        return
    place = f"{by.tool_call_id or f'{by.conversation_id}/v{number}'}/{version.artifact_id}"
    owner = {
        "tool_call_id": by.tool_call_id,
        "conversation_id": by.conversation_id,
        "artifact_id": version.artifact_id,
        "version": None if by.tool_call_id else number,
        "run_id": run_id,
        "checked_at": to_microseconds(by.at) if by.at else None,
    }
    values = (by.conversation_id, version.artifact_id, before.version if before else 0, PERSON)
    judged = load_checks(db, f"{OF_VERSION} AND c.method = ?", values)
    verdicts = {(row["text"], row["address"]): row for row in judged}
    for row in claim_rows(version.content, lambda cited: load_evidence(db, run_id, cited) if cited else Evidence()):
        check = {**owner, **row, "claim_id": f"{place}/{row['n']}"}
        write_check(db, check)
        if verdict := verdicts.get((row["text"], row["address"])):
            names = ("status", "method", "reason", "checker", "checked_at")
            write_check(db, check | {name: verdict[name] for name in names})


def write_check(db: sqlite3.Connection, row: Mapping[str, Any]) -> None:
    """Write a check after the earlier checks of the claim, from a row as `load_checks` returns it."""
    row = {name: value for name, value in row.items() if name != "passage"}
    if row["tool_call_id"]:
        row["version"] = None  # the tool call gives the version
    sql = "SELECT count(*) FROM claims WHERE check_id BETWEEN ? || '/' AND ? || '0'"
    number = db.execute(sql, (row["claim_id"], row["claim_id"])).fetchone()[0]
    insert(db, CHECKS.name, {**row, "check_id": f"{row['claim_id']}/{number}"})
