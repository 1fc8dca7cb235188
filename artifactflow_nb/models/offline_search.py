"""The offline model as a searcher: a query, a second one if it gave little, and a list of addresses."""

from artifactflow_nb.models.offline_transcript import Transcript, failure
from artifactflow_nb.text.citations import SearchHit, read_counts, read_hits, write_counts, write_hits
from artifactflow_nb.text.words import content_words, query_of
from artifactflow_nb.xml_calls import format_call

_RESULTS = 8
_FEW = 2
_QUERIES = 2


def turn(transcript: Transcript) -> str | None:
    """The searcher's next turn; None when it has sources and may read them itself."""
    searches = transcript.of("web_search")
    may_search = "web_search" in transcript.tools
    if may_search and not searches:
        return _call(f"Searching the sources for: {transcript.question}", _first_query(transcript))
    hits = _hits(transcript)
    second = _second_query(transcript)
    few = len(hits) < _FEW and len(searches) < _QUERIES and not any(step.error for step in searches)
    if may_search and few and second and second != searches[0].params.get("query"):
        return _call("The first query gave little; trying other words.", second)
    return None if hits and "web_fetch" in transcript.tools else _report(transcript, hits)


def _call(words: str, query: str) -> str:
    return f"{words}\n\n{format_call('web_search', {'query': query, 'max_results': _RESULTS})}"


def _first_query(transcript: Transcript) -> str:
    """The question without its outer question words, and the earlier question's words where it leans on it."""
    words = [content_words(transcript.question), content_words(transcript.context)]
    return " ".join(filter(None, words)) or transcript.question or "overview"


def _second_query(transcript: Transcript) -> str:
    """The stems of the question and the parts of its names: looser than what was asked first."""
    return " ".join(query_of(f"{transcript.question} {transcript.earlier}").terms)


def _hits(transcript: Transcript) -> list[SearchHit]:
    found = {hit.address: hit for step in transcript.of("web_search") for hit in read_hits(step.data)}
    return list(found.values())


def _report(transcript: Transcript, hits: list[SearchHit]) -> str:
    texts = "\n".join(step.data for step in transcript.of("web_search"))
    counts = read_counts(texts)
    asked = query_of(" ".join(str(step.params.get("query", "")) for step in transcript.of("web_search")))
    known = write_counts(asked.spelled, counts) if counts else ""
    errors = [failure(step) for step in transcript.of("web_search") if step.error]
    head = f"Sources found for: {transcript.question}" if hits else f"No source was found for: {transcript.question}"
    return "\n\n".join(filter(None, [head, write_hits(hits), known, *errors]))
