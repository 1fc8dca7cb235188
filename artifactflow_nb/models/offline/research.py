"""Research by rules: the coordinator, the searcher and the reader.

::

    coordinator   plan, search job -> reading job -> report -> answer
    searcher      a query for each part of the question -> list of addresses
    reader        fetch -> quotes

Each step is attempted once. A failed or denied step is reported and skipped, so every run ends.
"""

from itertools import zip_longest

from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.core.text.format import count
from artifactflow_nb.models.offline.questions import is_follow_up, quotes_for_parts, split_question
from artifactflow_nb.models.offline.ranking import MAX_SENTENCES, best_quotes, missing_words
from artifactflow_nb.models.offline.report import (
    Findings,
    checklist,
    phrases_for,
    plan_title,
    report_title,
    research_answer,
    research_report,
)
from artifactflow_nb.models.offline.turn import FinishedCall, Reply, Turn, call_tool, find_failures
from artifactflow_nb.sources.citations import (
    SearchHit,
    SourceQuotes,
    find_addresses,
    read_counts,
    read_documents,
    read_hits,
    read_quotes,
    write_counts,
    write_hits,
    write_quotes,
)
from artifactflow_nb.sources.retrieval.terms import Query, content_words, parse_query

REPORT = "research_report"
"""Id of the artifact with the report."""

LOOKUP_TOOLS = ("web_search", "web_fetch")
REPORT_TOOLS = ("create_artifact", "rewrite_artifact")

MAX_SOURCES = 8
"""Maximum number of sources that are read."""

_SEARCHER, _READER = "search_agent", "crawl_agent"
_PLAN = "task_plan"
_NOTHING = "None of the sources read answers the question."
_RESULTS_PER_QUERY = 8

# --- the coordinator -------------------------------------------------------------------------------------------------


def coordinate(turn: Turn) -> Reply:
    """Delegate the search and then the reading, write the report, and answer."""
    question, phrases = turn.question, phrases_for(turn.question)
    hits = read_hits(_search_results(turn))
    if "call_subagent" in turn.tools:
        if not _jobs(turn, _SEARCHER):
            task = "Find the sources that answer this question and report their addresses."
            calls = [_delegation(_SEARCHER, f"{task}\n{turn.stated_question}")]
            if "create_artifact" in turn.tools:
                plan = {"id": _PLAN, "title": plan_title(question), "content": checklist(question, n_done=0)}
                calls.insert(0, ToolCall("create_artifact", plan))
            return Reply(phrases["planning"], tuple(calls))
        if hits and not _jobs(turn, _READER):
            counts = read_counts(_search_results(turn))
            lines = ["Read these sources and quote the sentences that answer the question.", turn.stated_question]
            lines += [write_counts(turn.query.spellings, counts)] if counts else []
            lines += ["Sources:", *(f"- {hit.address}" for hit in hits[:MAX_SOURCES])]
            return Reply(phrases["reading"], (_delegation(_READER, "\n".join(lines)),))
    has_read = _jobs(turn, _READER)
    reading = turn.texts_of("call_subagent", agent_name=_READER) if has_read else turn.texts_of("web_fetch")
    searches = turn.texts_of("call_subagent", agent_name=_SEARCHER)
    # A search without hits shows that the sources are silent; after a hit, only reading the sources can show this.
    evidence = reading if hits else searches
    failed = [entry for entry in turn.calls if entry.error and entry.call.name in ("call_subagent", *LOOKUP_TOOLS)]
    problems = [f"{entry.params.get('agent_name', entry.call.name)}: {entry.error}" for entry in failed]
    tried = calls_for_report(turn)
    is_written = any(entry.result.success for entry in tried)
    quotes = read_quotes(reading)
    findings = Findings(
        question=question,
        quotes=tuple(quotes),
        searched=tuple(hit.title for hit in hits),
        was_read=bool(evidence) and not find_failures(evidence),
        problems=(*problems, *find_failures(f"{searches}\n{reading}")),
        missing=missing_words(turn.query, read_counts(_search_results(turn)), quotes),
        report_error=None if is_written or not tried else tried[-1].error or None,
    )
    exists = REPORT in turn.context.artifact_ids
    calls = report_calls(turn, report_title(question), research_report(findings), exists=exists)
    is_planned = any(entry.result.success for entry in turn.calls_of("create_artifact", id=_PLAN))
    if "rewrite_artifact" in turn.tools and is_planned and not turn.calls_of("rewrite_artifact", id=_PLAN):
        calls.append(ToolCall("rewrite_artifact", {"id": _PLAN, "content": checklist(question, n_done=3)}))
    return Reply(phrases["writing"], tuple(calls)) if calls else Reply(research_answer(findings))


def report_calls(turn: Turn, title: str, content: str, *, exists: bool) -> list[ToolCall]:
    """Return the call that writes the report, or rewrites an existing report; no call after an earlier attempt."""
    created = turn.calls_of("create_artifact", id=REPORT)
    if created:  # the artifacts of the context may include the report of this job
        exists = any(entry.failed_by("Conflict") for entry in created)
    params = {"id": REPORT, "title": title, "content": content}
    if exists and "rewrite_artifact" in turn.tools:
        return [] if turn.calls_of("rewrite_artifact", id=REPORT) else [ToolCall("rewrite_artifact", params)]
    return [ToolCall("create_artifact", params)] if "create_artifact" in turn.tools and not created else []


def calls_for_report(turn: Turn) -> list[FinishedCall]:
    """Return the calls that tried to write the report."""
    return [entry for tool in REPORT_TOOLS for entry in turn.calls_of(tool, id=REPORT)]


def _jobs(turn: Turn, agent: str) -> list[FinishedCall]:
    return turn.calls_of("call_subagent", agent_name=agent)


def _delegation(agent: str, instruction: str) -> ToolCall:
    return ToolCall("call_subagent", {"agent_name": agent, "instruction": instruction})


def _search_results(turn: Turn) -> str:
    """Return the results of the search jobs, or of the coordinator's own searches."""
    has_delegated = _jobs(turn, _SEARCHER)
    return turn.texts_of("call_subagent", agent_name=_SEARCHER) if has_delegated else turn.texts_of("web_search")


# --- the searcher and the reader -------------------------------------------------------------------------------------


def look_up(turn: Turn) -> Reply:
    """Search and then read, each only if the agent has the tool, then report."""
    if turn.has("web_search") and not turn.calls_of("web_fetch"):
        reply = _search(turn)
        if reply is not None:
            return reply
    addresses = find_addresses(turn.context.instruction) or [hit.address for hit in _hits(turn)]
    if "web_fetch" in turn.tools and not turn.calls_of("web_fetch") and addresses:
        urls = addresses[:MAX_SOURCES]
        params = {"urls": urls, "focus": turn.question}
        return call_tool("web_fetch", params, f"Reading {count(len(urls), 'source')}.")
    if not addresses:
        return Reply(f"{_NOTHING} The instruction names no address to read.")
    documents, quotes = read_documents(turn.texts_of("web_fetch")), find_quotes(turn)
    paragraphs = [f"Quotes from the sources, the most relevant first, for: {turn.question}", write_quotes(quotes)]
    if not quotes:
        read = [f"- {document.title} ({document.address})" for document in documents if document.error is None]
        paragraphs = [_NOTHING, *(["Read were:\n" + "\n".join(read)] if read else [])]
    paragraphs += [f"{entry.address} could not be read: {entry.error}" for entry in documents if entry.error]
    paragraphs += [entry.failure_line for entry in turn.calls_of("web_fetch") if entry.error]
    return Reply("\n\n".join(paragraphs))


def _search(turn: Turn) -> Reply | None:
    """Return the queries or the list of addresses, or None if the agent can read the found sources."""
    searches = turn.calls_of("web_search")
    if "web_search" in turn.tools and not searches:
        earlier = content_words(turn.earlier_question)
        parts = [content_words(part) for part in split_question(turn.question)]
        if not all(parts) or any(map(is_follow_up, parts)):
            parts = [content_words(turn.question)]
        queries = [" ".join(filter(None, (part, earlier))) or turn.question or "overview" for part in parts]
        calls = [ToolCall("web_search", {"query": query, "max_results": _RESULTS_PER_QUERY}) for query in queries]
        return Reply(f"Searching the sources for: {turn.question}", tuple(calls))
    hits = _hits(turn)
    if hits and "web_fetch" in turn.tools:
        return None
    counts = read_counts(turn.texts_of("web_search"))
    searched = parse_query(" ".join(str(entry.params.get("query", "")) for entry in searches))
    heading = f"Sources found for: {turn.question}" if hits else f"No source was found for: {turn.question}"
    results = [heading, write_hits(hits), write_counts(searched.spellings, counts) if counts else ""]
    return Reply("\n\n".join(filter(None, [*results, *(entry.failure_line for entry in searches if entry.error)])))


def _hits(turn: Turn) -> list[SearchHit]:
    """Return the hits of all searches by rank: the first hit of each search, then the second hits."""
    ranked = zip_longest(*(read_hits(entry.text) for entry in turn.calls_of("web_search")))
    hits = [hit for rank in ranked for hit in rank if hit is not None]
    return list({hit.address: hit for hit in reversed(hits)}.values())[::-1]


def find_quotes(turn: Turn) -> list[SourceQuotes]:
    """Quote the sentences of the fetched sources that answer the question."""
    documents = read_documents(turn.texts_of("web_fetch"))
    counts = read_counts(f"{turn.context.instruction}\n{turn.texts_of('web_search')}")

    def answer(query: Query, question: str, limit: int) -> list[SourceQuotes]:
        return best_quotes(query, documents, counts, question, max_sentences=limit)

    return quotes_for_parts(turn.question, turn.earlier_question, MAX_SENTENCES, answer)
